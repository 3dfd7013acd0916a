"""Summarise the coordinates of many clients in constant space, and bound the latency between them.

ePulsar 3.2: for a topic's producers, and for its consumers, a hub reports the centroid and the distance of the farthest
client from it, however many clients there are. Distances are round trips; a message goes one way on each of its two
legs, so latencies here are halves of distances.

The centroid here is not the mean but nearly the centre of the smallest ball around all clients: the mean, moved a few
times towards the farthest client (Bădoiu and Clarkson, 2003). W(t, b) is the latency of the worst pair, and the mean is
near the majority: six players in one city and one in another would be served from the first city. With the centre, the
worst pair of ePulsar's figure 4 is within 5 % of the value from every client's own coordinate; with the mean it is
22 to 30 % above (docs/decisions/0014).

Difference from the paper: the paper adds the heights of client and centroid to the deviation of the two, which counts
the access link two or three times. Here the deviation of a client is the least value that, added to the centroid's
distance from any hub, is never less than the client's own distance:

    |client − centroid| + max(0, height of the client − height of the centroid)

so W(t, b) is still an upper bound by the triangle inequality, and a tighter one.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from heapq import nlargest
from operator import itemgetter

from equipoise.coordinates.coordinate import Coordinate

__all__ = [
    "CANDIDATES",
    "ClientGroup",
    "centre_of",
    "centroid_of",
    "deviation_s",
    "expected_worst_s",
    "worst_s",
]

# Steps from the mean towards the farthest client: of 1, 4, 16 and 64, four steps give nearly all of the gain.
_STEPS = 4
# Of many clients, this many of the farthest from the mean determine the centre.
CANDIDATES = 64


@dataclass(frozen=True, slots=True)
class ClientGroup:
    """Summary of a topic's producers, or of its consumers, for the planner."""

    # Near the centre of the smallest ball around them.
    centroid: Coordinate
    # Largest one-way latency from the centroid.
    deviation_s: float
    count: int

    @classmethod
    def of(cls, coordinates: Iterable[Coordinate]) -> ClientGroup | None:
        """None if there is no client with a coordinate."""
        known = list(coordinates)
        if not known:
            return None
        mean = centroid_of(known)
        farthest = nlargest(CANDIDATES, known, key=lambda one: deviation_s(one, mean))
        centre, deviation = min(
            (
                (place, max(deviation_s(one, place) for one in known))
                for place in (mean, centre_of(mean, farthest))
            ),
            key=itemgetter(1),
        )
        return cls(centre, deviation / 2, len(known))

    def worst_leg_s(self, hub: Coordinate) -> float:
        """One-way latency from the hub to the farthest client: an upper bound."""
        return self.centroid.distance_s(hub) / 2 + self.deviation_s


def centroid_of(coordinates: Collection[Coordinate]) -> Coordinate:
    """The mean of each number; at least one coordinate is required."""
    count = len(coordinates)
    columns = zip(*(coordinate.point_s for coordinate in coordinates), strict=True)
    return Coordinate(
        tuple(math.fsum(column) / count for column in columns),
        math.fsum(coordinate.error for coordinate in coordinates) / count,
        math.fsum(coordinate.height_s for coordinate in coordinates) / count,
        math.fsum(coordinate.adjustment_s for coordinate in coordinates) / count,
    )


def centre_of(mean: Coordinate, farthest: Sequence[Coordinate]) -> Coordinate:
    """A centre near the best one, given the coordinates farthest from the mean."""
    centre = best = mean
    least_s = math.inf
    for step in range(2, _STEPS + 2):
        away = max(farthest, key=lambda one: deviation_s(one, centre))
        pairs = zip(centre.numbers, away.numbers, strict=True)
        *point, error, height_s, adjustment_s = (one + (other - one) / step for one, other in pairs)
        centre = Coordinate(tuple(point), error, height_s, adjustment_s)
        radius_s = max(deviation_s(one, centre) for one in farthest)
        if radius_s < least_s:
            best, least_s = centre, radius_s
    return best


def expected_worst_s(producers: ClientGroup, consumers: ClientGroup, hub: Coordinate) -> float:
    """W(t, b): the worst latency of a topic's messages through this hub, without the time inside the hub."""
    return producers.worst_leg_s(hub) + consumers.worst_leg_s(hub)


def worst_s(producers: Sequence[Coordinate], consumers: Sequence[Coordinate], hub: Coordinate) -> float:
    """E(t): the worst latency through this hub, from each client's own coordinate; 0 if one side has no clients."""
    if not producers or not consumers:
        return 0.0
    inward_s = max(producer.distance_s(hub) for producer in producers) / 2
    return inward_s + max(consumer.distance_s(hub) for consumer in consumers) / 2


def deviation_s(client: Coordinate, centroid: Coordinate) -> float:
    """The least value that makes the centroid's distance from any hub an upper bound of the client's; round trip."""
    # Adjustments differ from client to client and belong to the distance as well.
    extra_s = client.height_s + client.adjustment_s - centroid.height_s - centroid.adjustment_s
    return math.dist(client.point_s, centroid.point_s) + max(0.0, extra_s)
