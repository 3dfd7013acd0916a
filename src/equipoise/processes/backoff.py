"""Say how long to wait before a process that ended is started again. Pure: the clock is an argument."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["BackoffSettings", "RestartBackoff"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BackoffSettings:
    # A process that died once, of bad luck, is back before anybody's time-out.
    first_s: float = 0.2
    # One that cannot start costs next to nothing, and is back soon after its cause is gone.
    longest_s: float = 15.0
    # Whoever has run this long had started well: its next end is a new story.
    forgiven_after_s: float = 30.0


class RestartBackoff:
    """The pauses of one process; owned by its supervisor."""

    __slots__ = ("_failures", "_settings")

    def __init__(self, settings: BackoffSettings) -> None:
        self._settings = settings
        self._failures = 0

    def pause_s(self, ran_s: float) -> float:
        """The pause after an end that came `ran_s` after the start."""
        if ran_s >= self._settings.forgiven_after_s:
            self._failures = 0
        pause_s = self._settings.first_s * 2.0**self._failures
        # Bounded, so that the power above stays a number.
        self._failures = min(self._failures + 1, 30)
        return min(pause_s, self._settings.longest_s)
