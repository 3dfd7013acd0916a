"""Small worlds on a plane, in milliseconds: locations, topics with clients, and Algorithm 1 as printed."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from equipoise.coordinates import ClientGroup, Coordinate
from equipoise.coordinates.centroid import worst_s
from equipoise.plan.latency import HubHeadroom, LatencyEstimate
from equipoise.plan.load import Capacities
from equipoise.view import HubView, TopicView
from plan.small import FULL_BYTES_PER_S, topic


def at(x_ms: float, y_ms: float = 0.0, height_ms: float = 0.0) -> Coordinate:
    """Round trips, so a way of 10 ms is 20 apart."""
    return Coordinate((x_ms / 1_000, y_ms / 1_000), 0.1, height_ms / 1_000)


def hub(name: str, x_ms: float | None, **known: object) -> HubView:
    made = HubView(
        name=name, coordinate=None if x_ms is None else at(x_ms), out_bytes_per_s_max=FULL_BYTES_PER_S
    )
    return replace(made, **known)  # type: ignore[arg-type]  # Facts of a hub given by a test.


def near(
    name: str,
    ratio: float,
    home: str,
    publishers: Sequence[Coordinate],
    subscribers: Sequence[Coordinate],
    hubs: Sequence[HubView],
) -> TopicView:
    """A topic with these clients, as its home would report it."""
    inward, outward = ClientGroup.of(publishers), ClientGroup.of(subscribers)
    place = next(hub.coordinate for hub in hubs if hub.name == home)
    known = inward is not None and outward is not None and place is not None
    return replace(
        topic(name, ratio, home),
        publishers_at=inward.centroid if inward is not None else None,
        subscribers_at=outward.centroid if outward is not None else None,
        publishers_located=float(len(publishers)),
        subscribers_located=float(len(subscribers)),
        deviation_s=sum(crowd.deviation_s for crowd in (inward, outward) if crowd is not None),
        latency_s_worst=worst_s(publishers, subscribers, place) if known and place else float("nan"),
    )


@dataclass(frozen=True)
class SmallWorld:
    """Topics to be placed on hubs: what each takes by way of each hub, its limit, its size, and room on hubs."""

    worst_s: list[list[float]]
    limit_s: list[float]
    size: list[float]
    used: list[float]
    homes: list[int]

    @property
    def hubs(self) -> int:
        return len(self.used)

    def room(self, ratio_max: float = 1.0) -> HubHeadroom:
        zeros, ones = np.zeros(self.hubs), np.ones(self.hubs)
        capacities = Capacities(
            bytes_full=ones,
            price=ones,
            base_bytes=zeros,
            base_cpu=zeros,
            lag_ratio=zeros,
            measured=zeros,
            rise=zeros,
            is_rising=np.zeros(self.hubs, np.bool_),
            cpu_full=1.0,
        )
        return HubHeadroom(
            capacities,
            bytes_per_s=np.array(self.size),
            work=np.zeros(len(self.size)),
            on_hubs=(np.array(self.loads(self.homes)), zeros),
            flow_measured=zeros,
            ratio_max=ratio_max,
        )

    def loads(self, placed: Sequence[int]) -> list[float]:
        loads = list(self.used)
        for size, hub_at in zip(self.size, placed, strict=True):
            if hub_at >= 0:
                loads[hub_at] += size
        return loads

    def estimate(self) -> LatencyEstimate:
        return _Given(np.array(self.worst_s, np.float64).reshape(-1, self.hubs))

    def violations(self, placed: Sequence[int]) -> int:
        return sum(
            hub_at < 0 or self.worst_s[row][hub_at] > self.limit_s[row] for row, hub_at in enumerate(placed)
        )

    def is_within(self, placed: Sequence[int], ratio_max: float = 1.0) -> bool:
        """No hub has more than it may, unless it had it before."""
        before = self.loads(self.homes)
        return all(load <= max(ratio_max, before[at]) + 1e-9 for at, load in enumerate(self.loads(placed)))

    def fewest_violations(self, ratio_max: float = 1.0) -> int:
        """Over all placements there are."""
        choices = [sorted({*range(self.hubs), home}) for home in self.homes]
        return min(
            self.violations(placed)
            for placed in itertools.product(*choices)
            if self.is_within(placed, ratio_max)
        )

    def as_printed(self, ratio_max: float = 1.0) -> list[int]:
        """PlaceTopics of the paper, line by line."""
        feasible: dict[int, list[int]] = {}
        for row, ways in enumerate(self.worst_s):
            ranked = sorted(range(self.hubs), key=lambda b, ways=ways: (ways[b], b))  # type: ignore[misc]
            kept = [b for b in ranked if ways[b] <= self.limit_s[row]]
            feasible[row] = kept or ranked
        placed = list(self.homes)
        for row in sorted(feasible, key=lambda row: len(feasible[row])):
            for candidate in feasible[row]:
                if candidate == placed[row]:
                    break
                loads = self.loads(placed)
                if loads[candidate] + self.size[row] <= ratio_max:
                    placed[row] = candidate
                    break
        return placed


class _Given:
    def __init__(self, worst: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> None:
        self._worst = worst

    @property
    def is_located(self) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
        return np.ones(len(self._worst), np.bool_)

    def worst_s(
        self, topics: np.ndarray[tuple[int, ...], np.dtype[np.int64]]
    ) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
        return self._worst[topics]
