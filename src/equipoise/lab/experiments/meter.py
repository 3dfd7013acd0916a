"""Measurements of a run: response times, latencies, messages, losses, state second by second.

Clients take response times themselves, on the one clock of the simulation. Everything else is looked at from outside,
once a second. Latencies take a constant amount of memory however many messages there are: of each topic and second the
worst is kept; of all messages together, how many took how long.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from equipoise.lab.simulation.light_client import DeliveryCounts

__all__ = ["Latencies", "Meter", "Second", "percentile"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Second:
    """How things stood at the end of one second."""

    at_s: float
    players: int
    servers: int
    # Players who should hear their tile by now and do not.
    deaf: int = 0
    # Of this second.
    deliveries: int = 0
    # Outgoing bandwidth over its maximum, of each server that is in use.
    load_ratios: tuple[float, ...] = ()
    # All that was known to be missed by then.
    lost: int = 0
    plan_version: int = 0


@dataclass
class Meter(DeliveryCounts):
    """Written by all clients of a run."""

    # Own messages that had to come back and did not.
    unanswered: int = 0
    # When the run began, on the clock of the simulation. All other times here are since then.
    began_at: float = 0.0
    seconds: list[Second] = field(default_factory=list)
    # When a plan was committed.
    plans_at_s: list[float] = field(default_factory=list)
    _taken_at: array[float] = field(default_factory=lambda: array("d"))
    _responses: array[float] = field(default_factory=lambda: array("d"))

    @property
    def lost(self) -> int:
        """Everything that a client was owed and did not get, or cannot be sure of."""
        return self.missed + self.unknown_gaps + self.unanswered

    def lost_until(self, second: int) -> int:
        """What was known to be lost at the end of a second, counted from 0."""
        return self.seconds[second - 1].lost if 0 < second <= len(self.seconds) else self.lost

    def respond(self, now: float, response_s: float) -> None:
        """One message came back to its publisher, or reached the subscriber it was sent for."""
        self._taken_at.append(now)
        self._responses.append(response_s)

    @property
    def responses(self) -> int:
        return len(self._responses)

    def between(self, from_s: float, to_s: float) -> Floats:
        """The response times of messages that came back in this time, in seconds."""
        taken = np.frombuffer(self._taken_at, np.float64) - self.began_at
        values = np.frombuffer(self._responses, np.float64)
        return values[(taken >= from_s) & (taken < to_s)]

    def means(self, width_s: int) -> Floats:
        """The mean response in the `width_s` seconds up to the end of each second; NaN where nothing came back."""
        count = len(self.seconds)
        taken = np.frombuffer(self._taken_at, np.float64) - self.began_at
        values = np.frombuffer(self._responses, np.float64)
        inside = (taken >= 0) & (taken < count)
        bins = taken[inside].astype(np.int64)
        sums = _trailing(np.bincount(bins, values[inside], minlength=count).astype(np.float64), width_s)
        counts = _trailing(np.bincount(bins, minlength=count).astype(np.float64), width_s)
        with np.errstate(invalid="ignore"):
            return sums / counts


def _trailing(values: Floats, width: int) -> Floats:
    """Of each value the sum of it and those before it, `width` in all."""
    totals = np.concatenate(([0.0], np.cumsum(values)))
    ends = np.arange(1, len(values) + 1)
    return totals[ends] - totals[np.maximum(0, ends - width)]


def percentile(values: Floats, percent: float) -> float:
    """NaN of nothing."""
    return float(np.percentile(values, percent)) if len(values) else float("nan")


# Quantiles are right to this, upwards; longer latencies than these count as one.
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
