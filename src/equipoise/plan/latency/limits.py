"""Latency of topics by way of each hub, latency limits, and the hubs that meet them.

ePulsar 3.4.1: W(t, b) is the distance from the publishers' centroid to the hub, from the hub to the subscribers'
centroid, and the deviations of both. Added to that is the time that messages spend in the hub, and the time of a commit
if the topic is durable, so that there is one definition of latency. All of it is one way; distances of coordinates are
round trips. A side of a topic without coordinates counts as 0: then W is a lower bound. A hub with an unknown
coordinate has infinite latency.

`CentroidEstimate` computes that from a view, at a cost independent of the number of clients. `PairsEstimate` uses every
client's own coordinate: the paper's baseline, exact within the error of coordinates but too costly for large systems.

A step that moves a topic for another reason, mostly load, checks `LatencyLimits`: a move never breaks a limit that
holds, nor increases the latency of a topic above its limit. A topic without any located client is not checked. The
present latency of a topic is the measured one at its present home: at the quantile of its spec, or the next higher one
in views. Its latency elsewhere is an estimate by coordinates. The excess of the measured latency over the estimate,
such as queueing for a slow subscriber, is the same at every hub (`excess_s`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from equipoise.model import Glob, Specs, TopicSpec
from equipoise.plan.memory import LONG_AGO_S, Memory
from equipoise.plan.settings import PlannerSettings
from equipoise.view.schema import MEASURED_QUANTILES
from equipoise.view.view import BESIDE_POINT, Places, TopicColumns, View, is_known

__all__ = [
    "CentroidEstimate",
    "LatencyEstimate",
    "LatencyLimits",
    "PairsEstimate",
    "bound_topics",
    "coordinate_doubt",
    "legs_s",
    "limits_of",
    "measured_at",
    "present_latency_s",
    "specs_asking",
]

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]
Flags = NDArray[np.bool_]


class LatencyEstimate(Protocol):
    """An estimate of the latency of topics through hubs."""

    @property
    def is_located(self) -> Flags:
        """The topics with at least one located side."""
        ...

    def worst_s(self, topics: Indices) -> Floats:
        """W: one row for each of the topics, one column for each hub; infinite for a hub with unknown coordinate."""
        ...


class CentroidEstimate:
    """Estimate from the centroids of a view."""

    def __init__(self, view: View, doubt: Floats | None = None, durable: Collection[int] = ()) -> None:
        """`doubt`: the relative error of each hub's coordinate, added to its distances.

        `durable`: the topics whose messages are committed before delivery.
        """
        topics, hubs = view.topics, view.hubs
        self._doubt = None if doubt is None or not doubt.any() else 1.0 + doubt
        self._sides = (topics.publishers_at, topics.subscribers_at)
        self._hubs = hubs.coordinate
        self._deviation_s = np.nan_to_num(topics.deviation_s)
        self._residence_s = hubs.loop_lag_s
        self._commit_s = hubs.commit_s
        self._is_durable = np.zeros(topics.count, np.bool_)
        self._is_durable[list(durable)] = True
        # Values of all hubs that every call needs.
        self._are_hubs_known = hubs.count > 0 and bool(is_known(self._hubs).all())
        self._right = _right(self._hubs)
        self._beside = _beside(self._hubs)

    @property
    def is_located(self) -> Flags:
        return is_known(self._sides[0]) | is_known(self._sides[1])

    def worst_s(self, topics: Indices) -> Floats:
        sides = [side[topics] for side in self._sides]
        if self._are_hubs_known and all(self._is_plain(side) for side in sides):
            worst = self._plain(sides)
        else:
            worst = legs_s(sides[0], self._hubs)
            worst += legs_s(sides[1], self._hubs)
        if self._doubt is not None:
            worst *= self._doubt[None, :]
        worst += self._deviation_s[topics][:, None]
        worst += self._residence_s[None, :]
        if (is_durable := self._is_durable[topics]).any():
            worst[is_durable] += self._commit_s[None, :]
        return worst

    def _is_plain(self, side: Places) -> bool:
        """All coordinates are known, and no adjustment can make a distance negative."""
        if not len(side) or not is_known(side).all():
            return False
        return bool(_beside(side).min() + self._beside.min() > 0)

    def _plain(self, sides: Sequence[Places]) -> Floats:
        """The same as `legs_s` of both sides, with half the passes over the arrays."""
        worst = _points_s(sides[0], self._right)
        worst += _points_s(sides[1], self._right)
        worst += (_beside(sides[0]) + _beside(sides[1]))[:, None]
        worst += 2 * self._beside[None, :]
        worst *= 0.5
        return worst


class PairsEstimate:
    """Estimate from the coordinates of all clients: for each topic its publishers and its subscribers."""

    def __init__(self, clients: Sequence[tuple[Places, Places]], hubs: Places, residence_s: Floats) -> None:
        self._clients, self._hubs, self._residence_s = clients, hubs, residence_s

    @property
    def is_located(self) -> Flags:
        known = [bool(is_known(one).any() or is_known(other).any()) for one, other in self._clients]
        return np.array(known, np.bool_)

    def worst_s(self, topics: Indices) -> Floats:
        worst = np.tile(self._residence_s, (len(topics), 1))
        for row, topic in enumerate(topics.tolist()):
            for side in self._clients[topic]:
                if len(side):
                    worst[row] += legs_s(side, self._hubs).max(axis=0)
        return worst


def legs_s(places: Places, hubs: Places) -> Floats:
    """One-way latency between each place and each hub: half of `Coordinate.distance_s`, to a billionth of a second."""
    legs = np.zeros((len(places), len(hubs)))
    is_place, is_hub = is_known(places), is_known(hubs)
    if is_place.any() and is_hub.any():
        if is_place.all() and is_hub.all():
            legs = _legs_s(places, hubs)
        else:
            legs[np.ix_(is_place, is_hub)] = _legs_s(places[is_place], hubs[is_hub])
    legs[:, ~is_hub] = np.inf
    return legs


def _legs_s(places: Places, hubs: Places) -> Floats:
    legs = _points_s(places, _right(hubs))
    legs += places[:, -2][:, None]
    legs += hubs[:, -2][None, :]
    adjustment = places[:, -1][:, None] + hubs[:, -1][None, :]
    if adjustment.min() < 0:
        # Adjustments count unless they would make a distance negative.
        adjustment = np.where(legs + adjustment > 0, adjustment, 0.0)
    legs += adjustment
    legs *= 0.5
    return legs


def _points_s(places: Places, right: Floats) -> Floats:
    """The distances of the points alone.

    The square of a difference as one product of matrices: two orders of magnitude faster than pair by pair.
    """
    own = places[:, :-BESIDE_POINT]
    left = np.empty((len(own), own.shape[1] + 2))
    left[:, :-2] = -2.0 * own
    left[:, -2] = np.einsum("ij,ij->i", own, own)
    left[:, -1] = 1.0
    found: Floats = left @ right
    np.maximum(found, 0.0, out=found)
    return np.sqrt(found, out=found)


def _right(hubs: Places) -> Floats:
    """The hubs' side of that product."""
    points = hubs[:, :-BESIDE_POINT]
    return np.vstack([points.T, np.ones(len(points)), np.einsum("ij,ij->i", points, points)])


def _beside(places: Places) -> Floats:
    """The part of a place that is added to all its distances."""
    beside: Floats = places[:, -2:].sum(axis=1)
    return beside


# --- limits -----------------------------------------------------------------------------------------------------------


class LatencyLimits:
    """The limits of one view. Independent of plans: homes are arguments."""

    def __init__(
        self,
        view: View,
        limit_s: dict[int, float],
        estimate: LatencyEstimate,
        present_s: Floats | None = None,
    ) -> None:
        """`limit_s` by topic. `present_s`: the present latency of all topics, NaN: unknown; default: E(t)."""
        self.limit_s = limit_s
        self.estimate = estimate
        self._measured_s = view.topics.latency_s_worst if present_s is None else present_s
        self._rows: dict[int, Floats] = {}

    @classmethod
    def of_specs(cls, view: View, specs: Specs, doubt: Floats) -> LatencyLimits:
        """The limits of specs, checked against the latency measured at the quantile of each spec."""
        found = specs_asking(view, specs, lambda spec: spec.latency_ms is not None)
        limit_s = {topic: spec.latency_ms / 1_000 for topic, spec in found.items() if spec.latency_ms}
        present_s = present_latency_s(view.topics, {topic: spec.quantile for topic, spec in found.items()})
        durable = specs_asking(view, specs, lambda spec: spec.durability is not None)
        return cls(view, limit_s, CentroidEstimate(view, doubt, durable), present_s)

    def __bool__(self) -> bool:
        return bool(self.limit_s)

    @cached_property
    def topics(self) -> Indices:
        """The topics that have a limit and can be checked."""
        limited = np.fromiter(self.limit_s, np.int64, len(self.limit_s))
        return limited[self.estimate.is_located[limited]] if len(limited) else limited

    @cached_property
    def _located(self) -> frozenset[int]:
        return frozenset(self.topics.tolist())

    def worst_s(self, topic: int) -> Floats:
        """W(t, b) for all hubs."""
        if topic not in self._rows:
            self._rows[topic] = self.estimate.worst_s(np.array([topic], np.int64))[0]
        return self._rows[topic]

    def at_homes_s(self, topic: int, homes: Iterable[int]) -> float:
        """W(t, b) at the worst of its homes: messages may pass any of them."""
        row = self.worst_s(topic)
        return max((float(row[hub]) for hub in homes), default=float("inf"))

    def present_s(self, topic: int, homes: Iterable[int]) -> float:
        """The present latency: measured, else E(t), else W(t, b). NaN if none is known."""
        measured_s = float(self._measured_s[topic])
        if measured_s == measured_s:
            return measured_s
        expected_s = self.at_homes_s(topic, homes)
        return expected_s if np.isfinite(expected_s) else float("nan")

    def excess_s(self, topic: int, homes: Iterable[int]) -> float:
        """The part of the present latency that the coordinates of clients do not explain: no move changes it."""
        excess_s = self.present_s(topic, homes) - self.at_homes_s(topic, homes)
        return excess_s if excess_s > 0 and np.isfinite(excess_s) else 0.0

    def is_within(self, topic: int, homes: Iterable[int]) -> bool | None:
        """Whether its homes keep its limit, by the coordinates of clients. None: unknown, or no limit."""
        if topic not in self._located:
            return None
        expected_s = self.at_homes_s(topic, homes)
        return expected_s <= self.limit_s[topic] if np.isfinite(expected_s) else None

    def broken(self, homes_of: Callable[[int], tuple[int, ...]]) -> list[int]:
        """The topics above their limits."""
        topics = self.topics.tolist()
        limit_s = np.array([self.limit_s[topic] for topic in topics], np.float64)
        present_s = self._measured_s[self.topics]
        if np.isnan(present_s).any():
            present_s = np.array([self.present_s(topic, homes_of(topic)) for topic in topics])
        found: list[int] = self.topics[present_s > limit_s].tolist()
        return found

    def allowed(self, topic: int, homes: tuple[int, ...]) -> Flags | None:
        """The hubs that may receive the topic for another reason than latency. None: all of them."""
        if topic not in self._located:
            return None
        row, limit_s = self.worst_s(topic), self.limit_s[topic]
        if not np.isfinite(row).any():
            return None
        if self.present_s(topic, homes) <= limit_s or not homes:
            return row <= limit_s
        # Above the limit, or unknown: no worse than at the present homes.
        return row <= max(limit_s, self.at_homes_s(topic, homes))


def limits_of(view: View, specs: Specs) -> dict[int, float]:
    """The topics whose spec has a latency limit, and the limit in seconds."""
    found = specs_asking(view, specs, lambda spec: spec.latency_ms is not None)
    return {at: spec.latency_ms / 1_000 for at, spec in found.items() if spec.latency_ms is not None}


def specs_asking(view: View, specs: Specs, asks: Callable[[TopicSpec], bool]) -> dict[int, TopicSpec]:
    """The topics whose spec fulfils the condition, with the spec."""
    prefixes = tuple(Glob(spec.pattern).prefix for spec in specs.all if asks(spec))
    if not prefixes:
        return {}
    # Most topics match no such pattern; comparing prefixes is fast.
    near = ((at, specs.of(name)) for at, name in enumerate(view.topics.names) if name.startswith(prefixes))
    return {at: spec for at, spec in near if spec is not None and asks(spec)}


def bound_topics(
    view: View, specs: Specs, pinned: dict[int, NDArray[np.bool_]]
) -> dict[int, NDArray[np.bool_]]:
    """The eligible hubs of some topics: those at the site that the spec names (`pinned`), and for a durable topic those
    at sites with the bookies of an ensemble, if there is such a site."""
    found, alive = dict(pinned), view.hubs.is_alive
    for topic, spec in specs_asking(view, specs, lambda spec: spec.durability is not None).items():
        assert spec.durability is not None, "specs_asking selects durable ones"
        able = (view.hubs.bookies >= spec.durability.ensemble) & found.get(topic, True)
        # If no site has them, the log's bookies are at several sites.
        if (able & alive).any() and not able[alive].all():
            found[topic] = able
    return found


def coordinate_doubt(
    view: View, memory: Memory, settings: PlannerSettings, now: float
) -> NDArray[np.float64]:
    """The relative error of the coordinates of hubs that have just joined; 0 for all others."""
    hubs = view.hubs
    doubt = np.zeros(hubs.count)
    for hub, name in enumerate(hubs.names):
        is_fresh = now - memory.joined_s.get(name, LONG_AGO_S) < settings.joined_doubt_s
        if is_fresh and hubs.coordinate.shape[1]:
            doubt[hub] = np.nan_to_num(hubs.coordinate[hub, -BESIDE_POINT])
    return doubt


def measured_at(topics: TopicColumns, quantile: float) -> Floats:
    """The measured latency of all topics at the quantile; NaN without a measurement."""
    columns = (topics.latency_s_p50, topics.latency_s_p90, topics.latency_s_p99, topics.latency_s_max)
    return columns[int(np.searchsorted(MEASURED_QUANTILES, quantile))]


def present_latency_s(topics: TopicColumns, quantiles: Mapping[int, float]) -> Floats:
    """The present latency of all topics: E(t), or the measured one for those with a quantile, if there is one."""
    present_s = topics.latency_s_worst.copy()
    for quantile in set(quantiles.values()):
        rows = np.array([topic for topic, its in quantiles.items() if its == quantile], np.int64)
        measured_s = measured_at(topics, quantile)[rows]
        is_measured = ~np.isnan(measured_s)
        present_s[rows[is_measured]] = measured_s[is_measured]
    return present_s
