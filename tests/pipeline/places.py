"""Random coordinates of clients for records, and a direct computation of the results for a topic."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import pytest

from equipoise.coordinates import Coordinate, CoordinateSettings
from equipoise.coordinates.centroid import ClientGroup, centroid_of

SETTINGS = CoordinateSettings()
Record = dict[str, Any]


def random_place(rng: random.Random) -> Coordinate:
    point = [rng.uniform(-0.05, 0.05) for _ in range(SETTINGS.dimensions)]
    return Coordinate.of([*point, rng.random(), rng.uniform(0, 0.01), rng.uniform(-0.01, 0.01)], SETTINGS)


def side_told(side: str, clients: Iterable[Coordinate], leg_us: int | None) -> Record:
    """A hub's record of one side."""
    crowd = ClientGroup.of(clients)
    if crowd is None:
        return {}
    return {
        f"{side}_at": crowd.centroid.to_bytes(),
        f"{side}_located": crowd.count,
        f"{side}_deviation_us": round(crowd.deviation_s * 1e6),
        f"{side}_leg_us_max": leg_us,
    }


def random_sides(rng: random.Random) -> Record:
    told: Record = {"role": rng.choice(("home", "home", "relay", "lane"))}
    for side in ("publishers", "subscribers"):
        clients = [random_place(rng) for _ in range(rng.choice((0, 0, 1, 2, 5)))]
        leg_us = rng.choice((None, *(rng.randrange(100_000) for _ in range(9))))
        told |= side_told(side, clients, leg_us)
    return told


class TopicLocations(NamedTuple):
    """Of a topic, as a view has it."""

    publishers_at: Coordinate | None
    subscribers_at: Coordinate | None
    publishers_located: float
    subscribers_located: float
    deviation_s: float | None
    latency_s_worst: float | None


class HubFacts(NamedTuple):
    """What a plain reading has to know of a hub."""

    coordinate: Coordinate | None
    loop_lag_s: float
    # The longest wait of a message of the topic in a backlog.
    queue_s: float


def read_whereabouts(last: Mapping[str, Record], hubs: Mapping[str, HubFacts]) -> TopicLocations:
    """From the last record of each hub that carries the topic now."""
    homes = sorted(
        (hub for hub, record in last.items() if record["role"] == "home"), key=lambda hub: last[hub]["time"]
    )
    home = homes[-1] if homes else None
    crowds, legs = [], []
    for side in ("publishers", "subscribers"):
        told = {hub: record for hub, record in last.items() if record.get(f"{side}_at") is not None}
        crowds.append(_crowd(side, told))
        ways = [
            _way_s(
                record.get(f"{side}_leg_us_max"),
                _hop_s(hub, home, last, hubs),
                hubs[hub].queue_s if side == "subscribers" else 0.0,
            )
            for hub, record in last.items()
            if hub in told or record[side]
        ]
        legs.append(max(way for way in ways if way is not None) if ways and None not in ways else None)
    known = [crowd for crowd in crowds if crowd is not None]
    latency_s = None
    if home is not None and legs[0] is not None and legs[1] is not None:
        latency_s = legs[0] + legs[1] + hubs[home].loop_lag_s
    return TopicLocations(
        publishers_at=_centroid(crowds[0]),
        subscribers_at=_centroid(crowds[1]),
        publishers_located=_count(crowds[0]),
        subscribers_located=_count(crowds[1]),
        deviation_s=sum(crowd.deviation_s for crowd in known) if known else None,
        latency_s_worst=latency_s,
    )


def _crowd(side: str, told: Mapping[str, Record]) -> ClientGroup | None:
    if not told:
        return None
    places = {hub: Coordinate.from_bytes(record[f"{side}_at"], SETTINGS) for hub, record in told.items()}
    # The mean of as many clients as there are, each where its hub's centroid is.
    clients = [places[hub] for hub, record in told.items() for _ in range(record[f"{side}_located"])]
    mean = centroid_of(clients)
    farthest_s = []
    for hub, record in told.items():
        place = places[hub]
        apart_s = sum((a - b) ** 2 for a, b in zip(place.point_s, mean.point_s, strict=True)) ** 0.5
        above_s = place.height_s + place.adjustment_s - mean.height_s - mean.adjustment_s
        farthest_s.append(record[f"{side}_deviation_us"] / 1e6 + (apart_s + max(0.0, above_s)) / 2)
    return ClientGroup(mean, max(farthest_s), len(clients))


def _centroid(crowd: ClientGroup | None) -> Coordinate | None:
    return None if crowd is None else crowd.centroid


def _count(crowd: ClientGroup | None) -> float:
    return 0.0 if crowd is None else float(crowd.count)


def _hop_s(
    hub: str, home: str | None, last: Mapping[str, Record], hubs: Mapping[str, HubFacts]
) -> float | None:
    if hub == home or last[hub]["role"] == "lane":
        return 0.0
    here, there = hubs[hub].coordinate, hubs[home].coordinate if home is not None else None
    return None if here is None or there is None else here.distance_s(there) / 2


def _way_s(leg_us: int | None, hop_s: float | None, queue_s: float) -> float | None:
    return None if leg_us is None or hop_s is None else leg_us / 1e6 + hop_s + queue_s


def same_places(ours: Any, theirs: TopicLocations) -> None:
    """`ours` has the fields of a view's row; unknown numbers are NaN or None in it."""
    for name, expected in theirs._asdict().items():
        found = getattr(ours, name)
        if expected is None:
            assert found is None or found != found, name
        elif isinstance(expected, Coordinate):
            assert found is not None, name
            assert found.numbers == pytest.approx(expected.numbers, rel=1e-6, abs=1e-9), name
        else:
            assert found == pytest.approx(expected, rel=1e-6, abs=1e-9), name
