"""Summarise the coordinates of many clients in constant space, and bound the latency between them.

ePulsar 3.2: of a topic's producers, and of its consumers, a hub reports the centroid and how far the farthest is from
it, however many there are. Distances are round trips; a message goes one way on each of its two legs, so latencies here
are halves of distances.

What is reported here is not the mean but a centre near that of the smallest ball around all of them: the mean, drawn a
few times towards the farthest (Bădoiu and Clarkson, 2003). W(t, b) is of the worst pair, and the mean is where most
clients are: six players in one city and one in another would be served from the first. With the centre the worst pair
of ePulsar's figure 4 comes within 5 % of what every client's own coordinate gives; with the mean it is 22 to 30 % above
(docs/decisions/0014).

Where this departs from the paper: it adds the heights of client and centroid to the deviation of the two, which counts
the access link twice or three times over. Here the deviation of a client is what has to be added to the centroid's
distance from any hub so that the sum is never less than the client's own:

    |client − centroid| + max(0, height of the client − height of the centroid)

so W(t, b) is still an upper bound by the triangle inequality, only a nearer one.
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

# Steps from the mean towards the farthest: of 1, 4, 16 and 64 the fourth brings nearly all there is to gain.
_STEPS = 4
# Of many clients so many, the farthest from the mean, decide where the centre is.
CANDIDATES = 64


@dataclass(frozen=True, slots=True)
class ClientGroup:
    """The producers of a topic, or its consumers, as far as a planner has to know them."""

    # Near the centre of the smallest ball around them.
    centroid: Coordinate
    # Of one way.
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
        """One way between the hub and the farthest of them: at least what it really is."""
        return self.centroid.distance_s(hub) / 2 + self.deviation_s


def centroid_of(coordinates: Collection[Coordinate]) -> Coordinate:
    """The mean of each number; of at least one."""
    count = len(coordinates)
    columns = zip(*(coordinate.point_s for coordinate in coordinates), strict=True)
    return Coordinate(
        tuple(math.fsum(column) / count for column in columns),
        math.fsum(coordinate.error for coordinate in coordinates) / count,
        math.fsum(coordinate.height_s for coordinate in coordinates) / count,
        math.fsum(coordinate.adjustment_s for coordinate in coordinates) / count,
    )


def centre_of(mean: Coordinate, farthest: Sequence[Coordinate]) -> Coordinate:
    """A place from which the farthest is nearly as near as can be, given those farthest from the mean."""
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
    """W(t, b): what a topic's messages would take at worst with this hub, without the time they spend in it."""
    return producers.worst_leg_s(hub) + consumers.worst_leg_s(hub)


def worst_s(producers: Sequence[Coordinate], consumers: Sequence[Coordinate], hub: Coordinate) -> float:
    """E(t): what they take at worst with this hub, by each client's own coordinate; 0 if one side is missing."""
    if not producers or not consumers:
        return 0.0
    inward_s = max(producer.distance_s(hub) for producer in producers) / 2
    return inward_s + max(consumer.distance_s(hub) for consumer in consumers) / 2


def deviation_s(client: Coordinate, centroid: Coordinate) -> float:
    """What has to be added to the centroid's distance from a hub so that it is not below the client's; both ways."""
    # Adjustments differ from client to client and belong to the distance as well.
    extra_s = client.height_s + client.adjustment_s - centroid.height_s - centroid.adjustment_s
    return math.dist(client.point_s, centroid.point_s) + max(0.0, extra_s)
