"""Say in a constant amount where many clients are: the publishers of a topic at this hub, or its subscribers.

ePulsar 3.2, see `coordinates.centroid`. Ten thousand clients take some 15 ms to look at, so it is done in steps that
each take a moment. What is rounded is rounded up: deviations and legs are bounds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from equipoise.coordinates.centroid import deviation_s
from equipoise.coordinates.coordinate import Coordinate

if TYPE_CHECKING:
    from equipoise.hub.places.place import Place
    from equipoise.hub.session import Session

__all__ = ["STEP", "Side", "side_of"]

# Clients looked at in one go: half a millisecond, and no more than one where the kernel has to be asked about each.
STEP = 250


class Side(NamedTuple):
    """The telemetry's four columns of one side of a topic."""

    at: bytes
    located: int
    deviation_us: int
    leg_us_max: int


def side_of(
    sessions: Sequence[Session], place_of: Callable[[Session], Place | None], hub: Coordinate
) -> Generator[None, None, Side | None]:
    """Yields between steps; returns None if it is not known of anybody."""
    places: list[Place] = []
    for start in range(0, len(sessions), STEP):
        if start:
            yield
        places += [
            place for session in sessions[start : start + STEP] if (place := place_of(session)) is not None
        ]
    if not places:
        return None
    if len(places) == 1:
        # So are most sides of most topics.
        ((coordinate, leg_s),) = places
        leg_s = coordinate.distance_s(hub) / 2 if leg_s is None else leg_s
        return Side(coordinate.to_bytes(), 1, 0, math.ceil(1e6 * leg_s))
    centroid = yield from _centroid(places)
    farthest_s = leg_s_max = 0.0
    for start in range(0, len(places), STEP):
        if start:
            yield
        some = places[start : start + STEP]
        farthest_s = max(farthest_s, *[deviation_s(place.coordinate, centroid) for place in some])
        leg_s_max = max(leg_s_max, *[place.leg_from_s(hub) for place in some])
    deviation_us = math.ceil(1e6 * farthest_s / 2)
    return Side(centroid.to_bytes(), len(places), deviation_us, math.ceil(1e6 * leg_s_max))


def _centroid(places: Sequence[Place]) -> Generator[None, None, Coordinate]:
    """As `coordinates.centroid_of`, in steps."""
    sums: list[tuple[float, ...]] = []
    for start in range(0, len(places), STEP):
        if start:
            yield
        rows = [place.coordinate.numbers for place in places[start : start + STEP]]
        sums.append(tuple(map(math.fsum, zip(*rows, strict=True))))
    count = len(places)
    *point, error, height_s, adjustment_s = (math.fsum(column) / count for column in zip(*sums, strict=True))
    return Coordinate(tuple(point), error, height_s, adjustment_s)
