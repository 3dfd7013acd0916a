"""Schedule rate-limited topics that wait for tokens: one timer for all of them.

The loop's clock has a resolution of 1 ms, and shorter timers fire at once: a hub that used them to wait for the next
token would spin. So the timer fires up to 2 ms late, never early, and the served topic receives the time at which it
was due.

Always true: the timer is set for the topic that is due first.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from equipoise.hub.data.ports import Shell, Timer
    from equipoise.hub.data.topic import Topic

__all__ = ["DueTopics"]

_MS = 1_000_000


class DueTopics:
    """Owned by RateLimits."""

    def __init__(self, shell: Shell, now: Callable[[], int], serve: Callable[[Topic, int], None]) -> None:
        """`now` in nanoseconds. `serve` is called with each topic that is due, and the time at which it was due."""
        self._shell = shell
        self._now = now
        self._serve = serve
        self._heap: list[tuple[int, int, Topic]] = []
        self._pushed = 0
        self._timer: Timer | None = None
        self._timer_at = 0

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._heap.clear()

    def add(self, topic: Topic, at: int, now: int) -> None:
        """Serve the topic at the time `at`, unless its limit's `due_at` has changed by then."""
        self._pushed += 1
        heappush(self._heap, (at, self._pushed, topic))
        self._set_timer(now)

    def _set_timer(self, now: int) -> None:
        if not self._heap:
            return
        at = self._heap[0][0]
        if self._timer is not None and self._timer_at <= at:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = at
        # Timers count from the start of the current millisecond.
        delay_ms = max(0, -((now - at) // _MS)) + 1
        self._timer = self._shell.call_later(delay_ms / 1e3, self._ring_out)

    def _ring_out(self) -> None:
        """Serve in a turn of its own: uvloop runs a timer, and all that it calls soon, before it reads its sockets.

        So the sockets are read once more before the served clients' replies are written. This halves the wait of
        messages of other topics that arrive meanwhile.
        """
        self._timer = self._shell.call_later(0, self._serve_due)

    def _serve_due(self) -> None:
        self._timer = None
        now = self._now()
        while self._heap and self._heap[0][0] <= now:
            at, _, topic = heappop(self._heap)
            if topic.limit is not None and topic.limit.due_at == at:
                topic.limit.due_at = None
                self._serve(topic, at)
        self._set_timer(self._now())
