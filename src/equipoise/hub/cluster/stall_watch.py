"""Detect stalls of the event loop, to credit messages that waited in the kernel with the tokens of that time.

Tokens that arrive while a bucket is full are lost. That is right for an idle topic, and wrong for messages that wait in
the kernel while the loop is busy: at their arrival they could have used those tokens. So a timer runs while limited
topics are used. If it is late, levels of buckets are computed from its previous run (`Bucket.level`, `since`). A loop
that resumes after a stall may read sockets before it runs timers, so a timer that should have run by now is late, too.

`hub/shell/_sockets.c` reads the attributes, and computes the same as `since`.

Always true: the credit is at most CREDIT_NS of the rate, the slack in the guarantee to subscribers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from equipoise.limits import nanoseconds

if TYPE_CHECKING:
    from equipoise.hub.data.ports import Shell, Timer

__all__ = ["CREDIT_NS", "StallWatch"]

# A subscriber receives at most rate · (t + 20 ms) + burst in any t.
CREDIT_NS = 20_000_000
INTERVAL_S = 0.01
# The loop's clock has a resolution of 1 ms, so a timer of an idle loop is up to 2 ms late.
LATE_NS = 3_000_000
LATE_AFTER_NS = nanoseconds(INTERVAL_S) + LATE_NS
# Runs of the timer without a message in between, after which it stops.
IDLE_LOOKS = 100


class StallWatch:
    """Owned by RateLimits."""

    __slots__ = ("_idle", "_looked_at", "_shell", "_since", "_timer", "is_used")

    def __init__(self, shell: Shell) -> None:
        self._shell = shell
        self._timer: Timer | None = None
        self._looked_at = 0
        self._since = 0
        self._idle = 0
        # Whether a message was admitted since the last run of the timer.
        self.is_used = False

    def used(self) -> None:
        """A message was admitted: watch the loop for a while."""
        self.is_used = True
        if self._timer is None:
            self._idle = 0
            self._begin()

    def since(self, now: int) -> int:
        """The time from which messages that are read now may have waited; 0: the loop has not stalled."""
        is_late = now >= self._looked_at + LATE_AFTER_NS and self._timer is not None
        since = self._looked_at if is_late else self._since
        return max(since, now - CREDIT_NS) if since else 0

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _begin(self) -> None:
        self._looked_at = nanoseconds(self._shell.fine_now())
        self._timer = self._shell.call_later(INTERVAL_S, self._look)

    def _look(self) -> None:
        is_late = nanoseconds(self._shell.fine_now()) >= self._looked_at + LATE_AFTER_NS
        self._since = self._looked_at if is_late else 0
        self._idle = 0 if self.is_used else self._idle + 1
        self.is_used = False
        if self._idle < IDLE_LOOKS or is_late:
            self._begin()
        else:
            self._timer = None
