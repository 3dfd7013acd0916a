"""Give each host a wall clock that may be wrong.

The loop's monotonic clock is one and true for everybody. A wall clock starts at a fixed date, runs
fast or slow by a ratio and can be stepped, as a badly synchronised machine's does.
"""

from __future__ import annotations

from equipoise.lab.simulation.cpu import Now

__all__ = ["WallClock"]

# Virtual time 0 on a correct wall clock, in seconds since 1970: an arbitrary round number.
EPOCH_S = 1_700_000_000.0


class WallClock:
    """Owned by a host; survives its crashes. Pass `clock.time` where code takes a `time.time`."""

    __slots__ = ("_base_now", "_base_s", "_drift", "_monotonic")

    def __init__(self, monotonic: Now, *, offset_s: float = 0.0, drift: float = 0.0) -> None:
        self._monotonic = monotonic
        self._base_now = monotonic.now
        self._base_s = EPOCH_S + monotonic.now + offset_s
        self._drift = drift

    def time(self) -> float:
        """Seconds since 1970 as this host believes."""
        return self._base_s + (self._monotonic.now - self._base_now) * (1.0 + self._drift)

    def step(self, seconds: float) -> None:
        """Set the clock forward, or back if negative, at once."""
        self._rebase(seconds)

    def set_drift(self, drift: float) -> None:
        """Let the clock gain `drift` seconds per true second from here on, without a step."""
        self._rebase(0.0)
        self._drift = drift

    @property
    def error_s(self) -> float:
        """How far ahead of a correct clock this one is."""
        return self.time() - EPOCH_S - self._monotonic.now

    def _rebase(self, step_s: float) -> None:
        self._base_s = self.time() + step_s
        self._base_now = self._monotonic.now
