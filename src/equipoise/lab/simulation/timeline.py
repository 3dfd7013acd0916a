"""The queue of future events, ordered by virtual time.

Items due at the same instant share one bucket in the order of their addition, so one heap entry serves
a whole broadcast. The heap holds plain floats, because their comparisons are the cheapest.

Always true: every key of `buckets` is in `times`; a time in `times` without a bucket is stale (all
it held was cancelled) and is skipped.
"""

from __future__ import annotations

from heapq import heappop, heappush
from math import inf
from typing import Any

__all__ = ["Timeline"]


class Timeline:
    """Owned by the loop, which interprets the items."""

    __slots__ = ("buckets", "taken_at", "times")

    def __init__(self) -> None:
        self.buckets: dict[float, list[Any]] = {}
        self.times: list[float] = []
        self.taken_at = 0.0

    def add(self, at: float, item: Any) -> None:
        """Add `item` at the virtual time `at`; drop it if `at` is infinite."""
        bucket = self.buckets.get(at)
        if bucket is not None:
            bucket.append(item)
        elif at < inf:
            self.buckets[at] = [item]
            heappush(self.times, at)

    def discard(self, at: float) -> None:
        """Remove a cancelled item that is the only one at its time.

        In a bucket with other items the caller skips it later: a search in a large bucket would make
        the cancellation of many timers of one instant quadratic.
        """
        bucket = self.buckets.get(at)
        if bucket is not None and len(bucket) == 1:
            del self.buckets[at]

    def take(self) -> list[Any]:
        """Remove the next bucket and set `taken_at` to its time; empty when no item is left."""
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
