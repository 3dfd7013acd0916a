"""Say in a constant amount where many clients are: the publishers of a topic at this hub, or its subscribers.

ePulsar 3.2, see `coordinates.centroid`. Ten thousand clients take some 15 ms to look at, so it is done in steps that
each take a moment. What is rounded is rounded up: deviations and legs are bounds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Sequence
from typing import TYPE_CHECKING

from equipoise.coordinates.centroid import deviation_s
from equipoise.coordinates.coordinate import Coordinate
from equipoise.hub.locations.client_location import Side

if TYPE_CHECKING:
    from equipoise.hub.data.session import Session
    from equipoise.hub.locations.client_location import Place

__all__ = ["STEP", "places_of", "side_of"]

# Clients looked at in one go: half a millisecond, and no more than one where the kernel has to be asked about each.
STEP = 250


def places_of(
    sessions: Sequence[Session], some_of: Callable[[Sequence[Session]], Sequence[Place]]
) -> Generator[None, None, list[Place]]:
    """Of those of whom it is known. Yields between steps."""
    places: list[Place] = []
    for start in range(0, len(sessions), STEP):
        if start:
            yield
        places += some_of(sessions[start : start + STEP])
    return places


def side_of(places: Sequence[Place], hub: Coordinate) -> Generator[None, None, Side | None]:
    """Yields between steps; returns None if there is nobody."""
    if len(places) <= 1:
        return places[0].alone(hub) if places else None
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
