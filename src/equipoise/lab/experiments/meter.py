"""Measurements of a run: response times, latencies, messages, losses, state second by second.

Clients measure response times on the clock of the simulation. An observer samples everything else once a second.
Latencies take constant memory for any number of messages: the worst latency of each topic and second, and a histogram
of all messages.
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
    """The state at the end of one second."""

    at_s: float
    players: int
    servers: int
    # Players that should receive their tile by now and do not.
    deaf: int = 0
    # Deliveries of this second.
    deliveries: int = 0
    # Outgoing bandwidth over its maximum, of each server in use.
    load_ratios: tuple[float, ...] = ()
    # All messages known to be lost by then.
    lost: int = 0
    plan_version: int = 0


@dataclass
class Meter(DeliveryCounts):
    """Written by all clients of a run."""

    # Own messages that a publisher should have received and did not.
    unanswered: int = 0
    # Start of the run on the clock of the simulation. All other times are relative to it.
    began_at: float = 0.0
    seconds: list[Second] = field(default_factory=list)
    # Times of plan commits.
    plans_at_s: list[float] = field(default_factory=list)
    _taken_at: array[float] = field(default_factory=lambda: array("d"))
    _responses: array[float] = field(default_factory=lambda: array("d"))

    @property
    def lost(self) -> int:
        """Messages that clients should have received and missed, or may have missed."""
        return self.missed + self.unknown_gaps + self.unanswered

    def lost_until(self, second: int) -> int:
        """Messages known to be lost at the end of a second, counted from 0."""
        return self.seconds[second - 1].lost if 0 < second <= len(self.seconds) else self.lost

    def respond(self, now: float, response_s: float) -> None:
        """Record the response time of a message that reached its publisher or its subscriber."""
        self._taken_at.append(now)
        self._responses.append(response_s)

    @property
    def responses(self) -> int:
        return len(self._responses)

    def between(self, from_s: float, to_s: float) -> Floats:
        """Response times of the messages received in this interval, in seconds."""
        taken = np.frombuffer(self._taken_at, np.float64) - self.began_at
        values = np.frombuffer(self._responses, np.float64)
        return values[(taken >= from_s) & (taken < to_s)]

    def means(self, width_s: int) -> Floats:
        """The mean response in the `width_s` seconds up to the end of each second; NaN without messages."""
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
    """Sums of each value and the values before it, over `width` values."""
    totals = np.concatenate(([0.0], np.cumsum(values)))
    ends = np.arange(1, len(values) + 1)
    return totals[ends] - totals[np.maximum(0, ends - width)]


def percentile(values: Floats, percent: float) -> float:
    """NaN without values."""
    return float(np.percentile(values, percent)) if len(values) else float("nan")


# Resolution of quantiles, rounded up; longer latencies than all bins count in the last bin.
BIN_S = 0.000_05
BINS = 40_000


class Latencies:
    """Written by all clients of a run. Messages before `began_at`, or after its seconds, do not count."""

    def __init__(self, seconds: int, began_at: float) -> None:
        self.seconds = seconds
        self.began_at = began_at
        self._worst: dict[bytes, list[float]] = {}
        self._counts = array("q", bytes(8 * BINS))

    def note(self, topic: bytes, now: float, latency_s: float) -> None:
        """Record a message, in the second of its arrival."""
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
        """The worst latency of these topics, or of all topics, in each second; NaN without messages."""
        rows = [self._worst[topic] for topic in topics or self._worst if topic in self._worst]
        found = np.array(rows, np.float64).max(axis=0) if rows else np.full(self.seconds, -1.0)
        return np.where(found < 0, np.nan, found)

    def quantile_s(self, quantile: float) -> float:
        """This quantile of the latencies of all messages; NaN without messages."""
        totals = np.cumsum(np.frombuffer(self._counts, np.int64))
        if not totals[-1]:
            return float("nan")
        return float((np.searchsorted(totals, quantile * totals[-1]) + 1) * BIN_S)

    def share_above(self, latency_s: float) -> float:
        """The share of messages with a larger latency."""
        counts = np.frombuffer(self._counts, np.int64)
        return float(counts[round(latency_s / BIN_S) :].sum() / max(1, counts.sum()))
