"""Decide how long to wait before the next attempt to connect.

Delays double from the first to the longest. Each is drawn from the upper half of its range: enough spread
that the clients of a restarted hub do not come back in step, and never so short that an attempt is wasted.

The random numbers are the caller's, so that a simulation can replay them.
"""

from __future__ import annotations

import random


class Backoff:
    """Owned by one link. `reset` after a connection that proved good."""

    __slots__ = ("_first_s", "_max_s", "_next_s", "_rng")

    def __init__(self, first_s: float, max_s: float, rng: random.Random) -> None:
        self._first_s = first_s
        self._max_s = max_s
        self._next_s = first_s
        self._rng = rng

    def next_s(self) -> float:
        delay_s = self._next_s
        self._next_s = min(self._max_s, delay_s * 2)
        return self._rng.uniform(delay_s / 2, delay_s)

    def reset(self) -> None:
        self._next_s = self._first_s
