"""The queue of future events, ordered by virtual time.

Things due at the same instant share one bucket and come out in the order they were added, so one
heap entry serves a whole broadcast. The heap holds bare floats: its comparisons are the cheapest
there are.

Always true: every key of `buckets` is in `times`; a time in `times` without a bucket is stale (all
it held was cancelled) and is skipped.
"""

from __future__ import annotations

from heapq import heappop, heappush
from math import inf
from typing import Any

__all__ = ["Timeline"]


class Timeline:
    """Owned by the loop. What an item means is the loop's business."""

    __slots__ = ("buckets", "taken_at", "times")

    def __init__(self) -> None:
        self.buckets: dict[float, list[Any]] = {}
        self.times: list[float] = []
        self.taken_at = 0.0

    def add(self, at: float, item: Any) -> None:
        """Put `item` at the virtual time `at`; at infinity it is forgotten."""
        bucket = self.buckets.get(at)
        if bucket is not None:
            bucket.append(item)
        elif at < inf:
            self.buckets[at] = [item]
            heappush(self.times, at)

    def discard(self, at: float) -> None:
        """Forget a cancelled item that was alone at its time.

        Where it has company the caller skips it later: searching a crowded bucket would make
        cancelling many timers of one instant quadratic.
        """
        bucket = self.buckets.get(at)
        if bucket is not None and len(bucket) == 1:
            del self.buckets[at]

    def take(self) -> list[Any]:
        """Take the next bucket; empty when nothing is left. Its time is `taken_at` from then on."""
        times, buckets = self.times, self.buckets
        while times:
            at = heappop(times)
            bucket = buckets.pop(at, None)
            if bucket is not None:
                self.taken_at = at
                return bucket
        return []

    def clear(self) -> None:
        self.buckets.clear()
        self.times.clear()
