"""Detect stalls of the event loop, so that messages that waited in the kernel get their arrival time.

Tokens that come while a bucket is full are lost. That is right for a topic at rest, and wrong for messages that lie in
the kernel while the loop is busy elsewhere: by their arrival they had those tokens. So a timer runs while limited
topics are used, and where it is late, buckets are judged as of when it ran before (`Bucket.level`, `since`). A loop
that goes on after a stall may read before it runs timers, so a timer that should have run by now is late, too.
`hub/shell/_sockets.c` reads the attributes, and judges as `since` does.

Always true: what is given by it is at most CREDIT_NS of the rate, the slack that the promise to subscribers has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from equipoise.limits import nanoseconds

if TYPE_CHECKING:
    from equipoise.hub.data.ports import Shell, Timer

__all__ = ["CREDIT_NS", "StallWatch"]

# A subscriber gets at most rate · (t + 20 ms) + burst in any t.
CREDIT_NS = 20_000_000
INTERVAL_S = 0.01
# The loop's clock counts milliseconds, so a timer of a loop that is idle is late by up to two of them.
LATE_NS = 3_000_000
LATE_AFTER_NS = nanoseconds(INTERVAL_S) + LATE_NS
# Looks without a message in between, after which there is no need to look.
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
        # Whether a message was admitted since the last look.
        self.is_used = False

    def used(self) -> None:
        """A message was admitted: have an eye on the loop for a while."""
        self.is_used = True
        if self._timer is None:
            self._idle = 0
            self._begin()

    def since(self, now: int) -> int:
        """Since when the messages that are found now may have waited; 0: the loop has not stood still."""
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
