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
    # Of this second.
    deliveries: int
    # Outgoing bandwidth over its maximum, of each server that is in use.
    load_ratios: tuple[float, ...] = ()
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

    def means(self, width_s: float, until_s: float) -> tuple[list[float], list[float]]:
        """The mean response of each stretch of this width, by the time of its end; NaN where nothing came back."""
        if not self._taken_at:
            return [], []
        taken = np.frombuffer(self._taken_at, np.float64) - self.began_at
        values = np.frombuffer(self._responses, np.float64)
        count = int(until_s / width_s)
        bins = (taken / width_s).astype(np.int64)
        inside = bins < count
        sums = np.bincount(bins[inside], values[inside], minlength=count)
        counts = np.bincount(bins[inside], minlength=count)
        with np.errstate(invalid="ignore"):
            means = sums / counts
        return [(index + 1) * width_s for index in range(count)], means.tolist()


def percentile(values: Floats, percent: float) -> float:
    """NaN of nothing."""
    return float(np.percentile(values, percent)) if len(values) else float("nan")
