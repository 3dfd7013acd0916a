"""What is measured of a run: response times, messages, losses, and how things stood second by second.

Response times are taken by the clients themselves, on the one clock of the simulation. Everything else is looked at
from outside, once a second.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

__all__ = ["Meter", "Second", "percentile"]

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
class Meter:
    """Written by all clients of a run. Plain counters: they are raised once per message."""

    deliveries: int = 0
    # Messages that a subscriber knows to have missed, by position.
    missed: int = 0
    # Gaps whose size nobody can tell.
    unknown_gaps: int = 0
    # Own messages that had to come back and did not.
    unanswered: int = 0
    # Positions seen twice or out of order: what merging has to keep from the program.
    disorder: int = 0
    # Connections lost that nobody had closed.
    cuts: int = 0
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
