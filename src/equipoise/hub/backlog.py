"""What happens to a client that reads more slowly than it is written to.

While its socket takes bytes a client has no backlog and costs nothing here. Once the transport says that its
buffer is full, further output is held in a `Backlog`, which knows which topic each piece is from; when the
transport has room again the backlog drains in order. A client whose unsent output crosses a limit is cut, and the
messages it will not get are counted by topic.

Always true:
    what the clients get is a prefix of what was written to them, whole frames apart from the very last;
    a client's unsent output is at most the limit and one piece;
    the sum over all backlogs is at most the total limit and one piece.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from equipoise.hub.session import Session
    from equipoise.hub.settings import Limits
    from equipoise.hub.topics import Topic


class Timer(Protocol):
    def cancel(self) -> None: ...


CallLater = Callable[..., Timer]


class Backlog:
    """Output held for one client whose transport is full. Lives from pause to resume."""

    __slots__ = ("_keeper", "bytes", "in_transport_bytes", "is_paused", "pieces", "session", "timer")

    def __init__(self, keeper: Backlogs, session: Session) -> None:
        self._keeper = keeper
        self.session = session
        # (bytes, topic or None for a reply, messages in it)
        self.pieces: deque[tuple[bytes, Topic | None, int]] = deque()
        self.bytes = 0
        # What the transport held when it paused; it only shrinks until it resumes.
        self.in_transport_bytes = session.wire.get_write_buffer_size()
        self.is_paused = True
        # Runs while the soft limit is exceeded.
        self.timer: Timer | None = None

    def hold(self, piece: bytes) -> None:
        """Stands in for the transport's `write` while it is paused."""
        keeper = self._keeper
        self.pieces.append((piece, keeper.topic, keeper.messages))
        self.bytes += len(piece)
        keeper.bytes += len(piece)
        keeper.check(self)


class Backlogs:
    """All backlogs of a hub, and the limits on them."""

    def __init__(
        self,
        limits: Limits,
        *,
        memory_bytes: int,
        call_later: CallLater,
        cut: Callable[[Session, str], None],
    ) -> None:
        self._limits = limits
        self._bytes_max = int(memory_bytes * limits.output_total_share)
        self._call_later = call_later
        self._cut = cut
        self.lagging: dict[Session, Backlog] = {}
        # Sum of the backlogs' bytes, without what the transports hold.
        self.bytes = 0
        # What is being written just now, for `hold`: set by the publisher while anyone lags.
        self.topic: Topic | None = None
        self.messages = 0
        self.cuts = 0
        self.drops = 0

    def pause(self, session: Session) -> None:
        """The session's transport is full."""
        backlog = self.lagging.get(session)
        if backlog is not None:
            backlog.is_paused = True
            backlog.in_transport_bytes = session.wire.get_write_buffer_size()
        elif not session.is_closing:
            backlog = self.lagging[session] = Backlog(self, session)
            session.write = backlog.hold
        if backlog is not None:
            self.check(backlog)

    def resume(self, session: Session) -> None:
        """The session's transport has room again: drain until it is full or nothing is left."""
        backlog = self.lagging.get(session)
        if backlog is None:
            return
        backlog.is_paused = False
        backlog.in_transport_bytes = 0
        pieces, write = backlog.pieces, session.wire.write
        while pieces and not backlog.is_paused:
            piece = pieces.popleft()[0]
            backlog.bytes -= len(piece)
            self.bytes -= len(piece)
            write(piece)
        if backlog.timer is not None and backlog.bytes <= self._limits.output_soft_bytes:
            backlog.timer.cancel()
            backlog.timer = None
        if not pieces and not backlog.is_paused and session in self.lagging:
            del self.lagging[session]
            session.write = write

    def check(self, backlog: Backlog) -> None:
        """Cut whoever is over a limit now."""
        limits = self._limits
        unsent_bytes = backlog.bytes + backlog.in_transport_bytes
        if unsent_bytes > limits.output_bytes_max:
            self._cut(backlog.session, "its unsent output exceeded output_bytes_max")
        elif unsent_bytes > limits.output_soft_bytes and backlog.timer is None:
            backlog.timer = self._call_later(limits.output_soft_s, self._cut_if_still_behind, backlog)
        while self.bytes > self._bytes_max and self.lagging:
            furthest = max(self.lagging.values(), key=lambda other: other.bytes)
            self._cut(furthest.session, "all unsent output exceeded output_total_share and it had the most")

    def revoke(self, session: Session, topic: Topic) -> None:
        """Messages of the topic that wait for the session must not reach it any more."""
        backlog = self.lagging.get(session)
        if backlog is None:
            return
        kept = deque(piece for piece in backlog.pieces if piece[1] is not topic)
        removed = [piece for piece in backlog.pieces if piece[1] is topic]
        backlog.pieces = kept
        size = sum(len(piece[0]) for piece in removed)
        backlog.bytes -= size
        self.bytes -= size
        self._count_drops(topic, sum(piece[2] for piece in removed))

    def discard(self, session: Session, *, is_cut: bool) -> None:
        """The session is going: count what it will not get. A cut is also counted on each topic concerned."""
        backlog = self.lagging.pop(session, None)
        if is_cut:
            self.cuts += 1
        if backlog is None:
            return
        if backlog.timer is not None:
            backlog.timer.cancel()
        self.bytes -= backlog.bytes
        concerned: dict[Topic, int] = {}
        for _, topic, messages in backlog.pieces:
            if topic is not None:
                concerned[topic] = concerned.get(topic, 0) + messages
        backlog.pieces.clear()
        for topic, messages in concerned.items():
            self._count_drops(topic, messages)
            topic.cuts += is_cut

    def _count_drops(self, topic: Topic, messages: int) -> None:
        topic.drops += messages
        self.drops += messages

    def _cut_if_still_behind(self, backlog: Backlog) -> None:
        backlog.timer = None
        if self.lagging.get(backlog.session) is backlog and (
            backlog.bytes + backlog.in_transport_bytes > self._limits.output_soft_bytes
        ):
            self._cut(backlog.session, "its unsent output exceeded output_soft_bytes for output_soft_s")
