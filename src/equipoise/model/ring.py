"""Consistent hashing, by weight, for topics without a plan entry.

Every member owns points on a circle of 2³² positions, in proportion to its weight; a topic belongs to the owner
of the first point after its own hash. A member that joins or leaves therefore moves only the topics of its own
arcs, about its share. The topics of a dead member spread over all others, because its points lie between theirs.

Always true:
    the same members give the same ring in every process, on every machine and Python (XXH3 is a fixed
    function; Python's own `hash` is not);
    raising a weight only adds points, lowering it only removes them.

Not implemented: bounded loads. They need the load of all hubs at every lookup, and the planner gives an entry to a
topic that is too heavy for its hub.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Container, Iterable, Sequence
from functools import lru_cache

from xxhash import xxh3_64_intdigest

from equipoise.errors import PlanError

__all__ = ["MEMBERS_MAX", "POSITION_BITS", "WEIGHT_NORMAL", "Ring", "ring_over"]

# The weight of an ordinary hub. In sixteenths a weight follows capacity to about 6 %, and noise below that does
# not move topics.
WEIGHT_NORMAL = 16
# 768 points for an ordinary hub: its share is off by 1/√768, 3.6 %, at one standard deviation. Twice as many would
# gain 1 % and take twice as long to sort (100 members: 40 ms).
_PAIRS_PER_WEIGHT = 24
# A point is position × MEMBERS_MAX + the owner's index, as a float because floats sort and compare faster than
# integers of this size; 2³² × 4,096 is far below 2⁵³, so they are exact.
MEMBERS_MAX = 4096
POSITION_BITS = 32
_POSITION_MASK = (1 << POSITION_BITS) - 1


class Ring:
    """A circle of points. Immutable; made by `ring_over`, which shares equal ones."""

    __slots__ = ("_idle", "hubs", "points")

    def __init__(self, weights: Iterable[tuple[str, int]]) -> None:
        """`weights` holds each hub once. A hub of weight 0 owns nothing and serves only when all others are dead."""
        known = sorted(weights)
        if len(known) > MEMBERS_MAX:
            raise PlanError(f"{len(known)} members: a ring holds at most {MEMBERS_MAX}")
        # All members, sorted: a point's remainder by `MEMBERS_MAX` is an index into them.
        self.hubs: Sequence[str] = [hub for hub, _ in known]
        self._idle = [hub for hub, weight in known if weight == 0]
        points: list[float] = []
        for index, (hub, weight) in enumerate(known):
            points += _points_of(hub, weight, index)
        points.sort()
        # Sorted, for batch lookups. Not to be changed.
        self.points: Sequence[float] = points

    def owner(self, topic: bytes, alive: Container[str] | None = None) -> str | None:
        """The hub that serves a topic; None if no member is alive. `alive` None means that all are."""
        points, hubs = self.points, self.hubs
        if points:
            count = len(points)
            start = bisect(points, float(xxh3_64_intdigest(topic) >> POSITION_BITS) * MEMBERS_MAX)
            hub = hubs[int(points[start % count]) % MEMBERS_MAX]
            if alive is None or hub in alive:
                return hub
            heir = self._next_alive(start + 1, alive)
            if heir is not None:
                return heir
        return self._last_resort(topic, alive)

    def _next_alive(self, start: int, alive: Container[str]) -> str | None:
        """Walk along the ring to the first live hub; None if all are dead."""
        points, hubs, count = self.points, self.hubs, len(self.points)
        owners = len(hubs) - len(self._idle)
        dead: set[int] = set()
        for step in range(count):
            index = int(points[(start + step) % count]) % MEMBERS_MAX
            if index in dead:
                continue
            if hubs[index] in alive:
                return hubs[index]
            dead.add(index)
            if len(dead) == owners:
                break
        return None

    def _last_resort(self, topic: bytes, alive: Container[str] | None) -> str | None:
        """Drained hubs serve if no other hub is alive, chosen by highest random weight."""
        left = [hub for hub in self._idle if alive is None or hub in alive]
        seed = xxh3_64_intdigest(topic)
        return max(left, key=lambda hub: (xxh3_64_intdigest(hub.encode(), seed), hub), default=None)


@lru_cache(maxsize=16)
def ring_over(weights: tuple[tuple[str, int], ...]) -> Ring:
    """The ring of these members. Plans that differ only in entries share one; so do all hubs of a simulation."""
    return Ring(weights)


def _points_of(hub: str, weight: int, index: int) -> list[float]:
    """Each hash gives two positions: building a ring is half hashing.

    Of exactly three bytes XXH3 mixes the last with the seed alone: h10 and h11 would own the same points.
    """
    name = hub.encode()
    if len(name) == 3:
        name += b"\0"
    hashes = [xxh3_64_intdigest(name, pair) for pair in range(weight * _PAIRS_PER_WEIGHT)]
    high = [float((number >> POSITION_BITS) * MEMBERS_MAX + index) for number in hashes]
    low = [float((number & _POSITION_MASK) * MEMBERS_MAX + index) for number in hashes]
    return high + low
