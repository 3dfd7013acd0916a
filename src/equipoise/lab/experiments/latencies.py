"""End-to-end latencies of a run, by topic and second, in a constant amount however many messages there are.

From publishing a message until a subscriber has it, by the one clock of the simulation. Of each topic and second the
worst is kept; of all messages together, how many took how long.
"""

from __future__ import annotations

from array import array

import numpy as np
from numpy.typing import NDArray

__all__ = ["Latencies"]

Floats = NDArray[np.float64]

# What is told of quantiles is right to this, upwards; and so long is the longest that is told apart.
BIN_S = 0.000_05
BINS = 40_000


class Latencies:
    """Written by all clients of a run. What comes before `began_at`, or after its seconds, does not count."""

    def __init__(self, seconds: int, began_at: float) -> None:
        self.seconds = seconds
        self.began_at = began_at
        self._worst: dict[bytes, list[float]] = {}
        self._counts = array("q", bytes(8 * BINS))

    def note(self, topic: bytes, now: float, latency_s: float) -> None:
        """A message has come. Counts for the second in which it came."""
        second = int(now - self.began_at)
        if not 0 <= second < self.seconds or now < self.began_at:
            return
        worst = self._worst.get(topic)
        if worst is None:
            worst = self._worst[topic] = [-1.0] * self.seconds
        if latency_s > worst[second]:
            worst[second] = latency_s
        self._counts[min(int(latency_s / BIN_S), BINS - 1)] += 1

    @property
    def topics(self) -> list[bytes]:
        return sorted(self._worst)

    @property
    def messages(self) -> int:
        return sum(self._counts)

    def worst_s(self, *topics: bytes) -> Floats:
        """Of each second the worst of these topics, NaN where nothing came; of all if none is named."""
        rows = [self._worst[topic] for topic in topics or self._worst if topic in self._worst]
        found = np.array(rows, np.float64).max(axis=0) if rows else np.full(self.seconds, -1.0)
        return np.where(found < 0, np.nan, found)

    def quantile_s(self, quantile: float) -> float:
        """So many of all messages took no longer; NaN of none."""
        totals = np.cumsum(np.frombuffer(self._counts, np.int64))
        if not totals[-1]:
            return float("nan")
        return float((np.searchsorted(totals, quantile * totals[-1]) + 1) * BIN_S)

    def share_above(self, latency_s: float) -> float:
        """Which part of all messages took longer."""
        counts = np.frombuffer(self._counts, np.int64)
        return float(counts[round(latency_s / BIN_S) :].sum() / max(1, counts.sum()))
