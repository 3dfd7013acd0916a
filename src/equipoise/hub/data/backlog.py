"""Output buffers of slow clients: hold, limit, disconnect.

While its socket takes bytes a client has no backlog and costs nothing here. Once the transport says that its
buffer is full, further output is held in a `Backlog`, which knows which topic each piece is from; when the
transport has room again the backlog drains in order. A client whose unsent output crosses a limit is cut, and the
held messages it will not get are counted by topic; what its transport had taken is not known message by message.

Always true:
    what the clients get is a prefix of what was written to them, but for what was put ahead, whole frames apart from
    the very last;
    a client's unsent output is at most the limit and one piece;
    `bytes` is the sum over all backlogs, of what they hold and what their transports held when they filled up, and
    over the clients that have left without reading what they were owed; it is at most the total limit and one piece.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from equipoise.hub.data.ports import CallLater, Timer
    from equipoise.hub.data.subscriber import Subscriber
    from equipoise.hub.data.topic import Topic
    from equipoise.hub.settings import Limits
    from equipoise.hub.telemetry.meter import TopicMeter

# Topics with cuts or drops that are remembered for INFO; the sums know of all.
HURT_MAX = 1_000


class Backlog:
    """Output held for one client whose transport is full. Lives from pause to resume."""

    __slots__ = (
        "_keeper",
        "bytes",
        "filled_by",
        "in_transport_bytes",
        "is_paused",
        "pieces",
        "session",
        "timer",
    )

    def __init__(self, keeper: Backlogs, session: Subscriber) -> None:
        self._keeper = keeper
        self.session = session
        # (bytes, topic or None for a reply, messages in it, since when it waits)
        self.pieces: deque[tuple[bytes, Topic | None, int, float]] = deque()
        # Of the pieces.
        self.bytes = 0
        # What the transport held when it paused, or when a limit was last looked at; it only shrinks until it resumes.
        self.in_transport_bytes = 0
        # The topic whose message filled the transport up, if it was one.
        self.filled_by: Topic | None = None
        self.is_paused = True
        # Runs while the soft limit is exceeded.
        self.timer: Timer | None = None

    @property
    def unsent_bytes(self) -> int:
        return self.bytes + self.in_transport_bytes

    @property
    def is_held(self) -> bool:
        """Whether anything waits in it still: a client that has left is owed nothing."""
        return bool(self.pieces)

    def hold(self, piece: bytes) -> None:
        """Stands in for the transport's `write` while it is paused."""
        keeper = self._keeper
        topic = keeper.topic
        now = keeper.now()
        self.pieces.append((piece, topic, keeper.messages, now))
        self.bytes += len(piece)
        keeper.bytes += len(piece)
        if topic is not None and (meter := topic.trunk.meter) is not None:
            meter.note_queued(self, self.bytes, now)
        keeper.check(self)


class Backlogs:
    """All backlogs of a hub, and the limits on them."""

    def __init__(
        self,
        limits: Limits,
        *,
        memory_bytes: int,
        now: Callable[[], float],
        call_later: CallLater,
        cut: Callable[[Subscriber, str], None],
        touch: Callable[[Topic], TopicMeter | None],
    ) -> None:
        """`touch` gives the meter on which telemetry counts what happens to a topic, if anything does."""
        self._limits = limits
        self.now = now
        self._touch = touch
        self.bytes_max = int(memory_bytes * limits.output_total_share)
        self._call_later = call_later
        self._cut = cut
        self.lagging: dict[Subscriber, Backlog] = {}
        # What the transports of clients that have left still held then, by client.
        self._departing: dict[Subscriber, int] = {}
        self.bytes = 0
        # What is being written just now, set by the publisher: the topic, and how many messages.
        self.topic: Topic | None = None
        self.messages = 0
        self.cuts = 0
        self.drops = 0
        # Topics that had cuts or drops, the latest last. Forgotten topics among them are kept for their counts.
        self.hurt: dict[Topic, None] = {}

    def pause(self, session: Subscriber) -> None:
        """The session's transport is full."""
        if session.is_closing:
            return
        backlog = self.lagging.get(session)
        if backlog is None:
            backlog = self.lagging[session] = Backlog(self, session)
            backlog.filled_by = self.topic
            session.write = backlog.hold
        backlog.is_paused = True
        self._measure(backlog)
        self.check(backlog)

    def resume(self, session: Subscriber) -> None:
        """The session's transport has room again: drain until it is full or nothing is left."""
        backlog = self.lagging.get(session)
        if backlog is None:
            return
        backlog.is_paused = False
        self._measure(backlog)
        pieces, write, now = backlog.pieces, session.wire.write, self.now()
        while pieces and not backlog.is_paused:
            piece, topic, _, since = pieces.popleft()
            backlog.filled_by = topic
            backlog.bytes -= len(piece)
            self.bytes -= len(piece)
            if topic is not None and (meter := topic.trunk.meter) is not None:
                meter.note_waited(now - since)
            write(piece)
        if session not in self.lagging:
            return
        if backlog.timer is not None and backlog.unsent_bytes <= self._limits.output_soft_bytes:
            backlog.timer.cancel()
            backlog.timer = None
        if not pieces and not backlog.is_paused:
            self._release(backlog)
            session.write = write

    def put_ahead(self, session: Subscriber, piece: bytes) -> None:
        """Write something before all that waits here for the session. What its transport has taken goes first."""
        backlog = self.lagging.get(session)
        if backlog is None:
            session.write(piece)
            return
        backlog.pieces.appendleft((piece, None, 0, self.now()))
        backlog.bytes += len(piece)
        self.bytes += len(piece)
        self.check(backlog)

    def check(self, backlog: Backlog) -> None:
        """Disconnect the clients that are over a limit now."""
        limits = self._limits
        if backlog.unsent_bytes > limits.output_soft_bytes:
            # The client may have read some of what its transport held, which costs a call to find out.
            self._measure(backlog)
            if backlog.unsent_bytes > limits.output_bytes_max:
                self._cut(backlog.session, "its unsent output exceeded output_bytes_max")
            elif backlog.unsent_bytes > limits.output_soft_bytes and backlog.timer is None:
                backlog.timer = self._call_later(limits.output_soft_s, self._cut_if_still_behind, backlog)
        if self.bytes > self.bytes_max:
            self._cut_furthest_behind()

    def depart(self, session: Subscriber) -> None:
        """The session leaves by itself: hand its transport all that it is owed."""
        backlog = self.lagging.get(session)
        if backlog is not None:
            for piece, *_ in backlog.pieces:
                session.wire.write(piece)
            backlog.pieces.clear()
            self._release(backlog)
        in_transport_bytes = session.wire.get_write_buffer_size()
        if in_transport_bytes:
            self._departing[session] = in_transport_bytes
            self.bytes += in_transport_bytes
            if self.bytes > self.bytes_max:
                self._cut_furthest_behind()

    def lost(self, session: Subscriber) -> None:
        """The session's transport is gone, and what it held."""
        self.bytes -= self._departing.pop(session, 0)

    def revoke(self, session: Subscriber, is_allowed: Callable[[Topic], bool]) -> None:
        """Messages of topics that are no longer allowed must not reach the session any more."""
        backlog = self.lagging.get(session)
        if backlog is None:
            return
        pieces = list(backlog.pieces)
        refused = {topic for _, topic, *_ in pieces if topic is not None and not is_allowed(topic)}
        backlog.pieces.clear()
        for piece, topic, messages, since in pieces:
            if topic is None or topic not in refused:
                backlog.pieces.append((piece, topic, messages, since))
                continue
            backlog.bytes -= len(piece)
            self.bytes -= len(piece)
            self._count(topic, drops=messages)

    def discard(self, session: Subscriber, *, is_cut: bool) -> None:
        """The session is going: count what it will not get. A cut is also counted on each topic concerned."""
        if is_cut:
            self.cuts += 1
        backlog = self.lagging.get(session)
        if backlog is None:
            return
        concerned: dict[Topic, int] = {} if backlog.filled_by is None else {backlog.filled_by: 0}
        for _, topic, messages, _ in backlog.pieces:
            if topic is not None:
                concerned[topic] = concerned.get(topic, 0) + messages
        self._release(backlog)
        backlog.pieces.clear()
        for topic, messages in concerned.items():
            if messages or is_cut:
                self._count(topic, drops=messages, cuts=int(is_cut))

    def _release(self, backlog: Backlog) -> None:
        """The backlog is no more, nor counted."""
        del self.lagging[backlog.session]
        self.bytes -= backlog.unsent_bytes
        if backlog.timer is not None:
            backlog.timer.cancel()

    def _measure(self, backlog: Backlog) -> None:
        """Count what the transport holds now; nothing while it has room, for then it holds little."""
        former = backlog.in_transport_bytes
        now = backlog.session.wire.get_write_buffer_size() if backlog.is_paused else 0
        backlog.in_transport_bytes = now
        self.bytes += now - former

    def _cut_furthest_behind(self) -> None:
        reason = "all unsent output exceeded output_total_share and it had the most"
        while self.bytes > self.bytes_max:
            furthest = max(self.lagging.values(), key=lambda other: other.unsent_bytes, default=None)
            gone = max(self._departing, key=self._departing.__getitem__, default=None)
            if gone is not None and (furthest is None or self._departing[gone] > furthest.unsent_bytes):
                self.lost(gone)
                gone.wire.abort()
            elif furthest is not None:
                self._cut(furthest.session, reason)
            else:
                return

    def _count(self, topic: Topic, *, drops: int, cuts: int = 0) -> None:
        meter = self._touch(topic)
        if meter is not None:
            meter.note_loss(cuts=cuts, drops=drops)
        topic.drops += drops
        topic.cuts += cuts
        self.drops += drops
        self.hurt.pop(topic, None)
        self.hurt[topic] = None
        if len(self.hurt) > HURT_MAX:
            del self.hurt[next(iter(self.hurt))]

    def _cut_if_still_behind(self, backlog: Backlog) -> None:
        backlog.timer = None
        if self.lagging.get(backlog.session) is not backlog:
            return
        self._measure(backlog)
        if backlog.unsent_bytes > self._limits.output_soft_bytes:
            self._cut(backlog.session, "its unsent output exceeded output_soft_bytes for output_soft_s")
