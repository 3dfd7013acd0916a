"""Throttle the handovers of topics that leave this hub, and retry those whose new home does not answer.

All topics that leave are offered at once (PREPARE), because the barrier needs that. Of those whose new homes have
accepted, at most `moves_max` are closed at a time: each takes a slot until its new home has opened it, or for `SLOT_S`.
The others stay open here meanwhile, and messages that reach their new homes are sent back. So a hub that receives ten
thousand topics does not receive them all at once.

Always true: a stream is in `_asked` while it is closing; it is in at most one of `_answered` and `_closed`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from equipoise.hub.cluster.ports import ClusterPort
from equipoise.stream.handover_events import AnswerOverdue, HandoverEvent, SlotFree

if TYPE_CHECKING:
    from equipoise.hub.cluster.streams import Stream
    from equipoise.hub.data.ports import Timer

__all__ = ["HandoverThrottle"]

# Longest time that a slot is taken, in seconds: the new home may wait for other hubs, or OPENED may be lost.
SLOT_S = 1.0
# Interval of the check of slots and overdue replies, in seconds.
TURN_S = 0.25


class _Handover(Protocol):
    def handle(self, stream: Stream, event: HandoverEvent) -> None: ...


class _Cluster(ClusterPort, Protocol):
    @property
    def handover(self) -> _Handover: ...


class HandoverThrottle:
    """Owned by one cluster. Receives effects of the handover, returns SlotFree and AnswerOverdue."""

    def __init__(self, cluster: _Cluster, moves_max: int, handover_retry_s: float) -> None:
        self._cluster = cluster
        self._moves_max = moves_max
        self._handover_s = handover_retry_s
        # Closing streams, with the time at which their new homes received the offer; the oldest first.
        self._asked: dict[Stream, float] = {}
        # Streams whose new homes have accepted, in that order, with the home and the plan's version of the offer.
        self._answered: dict[Stream, tuple[str, int]] = {}
        # Streams that were closed and whose OPENED has not arrived, with the time of the close.
        self._closed: dict[Stream, float] = {}
        self._timer: Timer | None = None
        self.begun = 0
        self.finished = 0
        self.retried = 0

    @property
    def under_way(self) -> int:
        return len(self._asked) + len(self._closed)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    # Effects of the handover.

    def asked(self, stream: Stream) -> None:
        """The stream was offered to its new home, for the first time or again."""
        self.begun += stream not in self._asked
        self._asked.pop(stream, None)
        self._asked[stream] = self._cluster.core.now()
        self._answered.pop(stream, None)
        self._schedule()

    def answered(self, stream: Stream, peer: str, version: int) -> None:
        """The new home has accepted the stream."""
        self._answered[stream] = (peer, version)
        self._pump()

    def kept(self, stream: Stream) -> None:
        """The stream is no longer closing: it stays here, or has been closed."""
        self._asked.pop(stream, None)
        self._answered.pop(stream, None)

    def closed(self, stream: Stream) -> None:
        """The stream's epoch here has ended: take a slot until the new home has opened the next epoch."""
        self._closed[stream] = self._cluster.core.now()
        self._schedule()

    def opened(self, stream: Stream) -> None:
        """The new home has opened the stream, or SLOT_S has passed: free its slot."""
        if self._closed.pop(stream, None) is not None:
            self.finished += 1
            self._pump()

    # Timing.

    def _pump(self) -> None:
        while self._answered and len(self._closed) < self._moves_max:
            stream = next(iter(self._answered))
            peer, version = self._answered.pop(stream)
            self._cluster.news.tell(stream.topic)
            self._cluster.handover.handle(stream, SlotFree(peer, version))

    def _schedule(self) -> None:
        if self._timer is None:
            self._timer = self._cluster.core.shell.call_later(TURN_S, self._turn)

    def _turn(self) -> None:
        self._timer = None
        now = self._cluster.core.now()
        for stream in [stream for stream, at in self._closed.items() if now - at >= SLOT_S]:
            self.opened(stream)
        for stream, at in list(self._asked.items()):
            if now - at < self._handover_s:
                break
            self._ask_again(stream)
        if self._asked or self._closed:
            self._schedule()

    def _ask_again(self, stream: Stream) -> None:
        """The new home is alive and has not replied. The stream stays open here, and is offered again."""
        self._cluster.news.tell(stream.topic)
        if stream not in self._asked:
            # A peer event has changed the stream's state.
            return
        if stream in self._answered:
            # The stream waits for a slot here, not for its new home.
            self._asked[stream] = self._asked.pop(stream) + self._handover_s
        else:
            self.retried += 1
            self._cluster.handover.handle(stream, AnswerOverdue())
