"""Output buffers of slow clients: hold, limit, disconnect.

A client whose socket accepts all output has no backlog and costs nothing here. When the transport reports that its
buffer is full, further output is held in a `Backlog`, which stores the topic of each piece; when the transport has room
again, the backlog drains in order. A client whose unsent output exceeds a limit is disconnected, and its held messages
are counted as dropped, by topic. Messages in its transport's buffer are not counted.

Always true:
    each client receives a prefix of what was written to it, apart from pieces put ahead; only the last frame may be
    cut short;
    a client's unsent output is at most the limit plus one piece;
    `bytes` is the sum of what all backlogs hold, what their transports held when last measured, and the unread output
    of clients that are leaving; it is at most the total limit plus one piece.
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

# Topics with cuts or drops that are kept for INFO; the sums include all topics.
HURT_MAX = 1_000


class Backlog:
    """Output held for one client whose transport is full. Created when it pauses, released when it has drained."""

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
        # (bytes, topic or None for a reply, number of messages, time at which it was queued)
        self.pieces: deque[tuple[bytes, Topic | None, int, float]] = deque()
        # Sum of the pieces' lengths.
        self.bytes = 0
        # What the transport held when it was last measured: at pause, at resume or at a check of a limit. It only
        # shrinks while the transport is paused.
        self.in_transport_bytes = 0
        # The topic whose message filled the transport; None if a reply did.
        self.filled_by: Topic | None = None
        self.is_paused = True
        # Runs while the soft limit is exceeded.
        self.timer: Timer | None = None

    @property
    def unsent_bytes(self) -> int:
        return self.bytes + self.in_transport_bytes

    @property
    def is_held(self) -> bool:
        """Whether pieces are queued. The backlog of a client that has left holds none."""
        return bool(self.pieces)

    def hold(self, piece: bytes) -> None:
        """Replaces the transport's `write` while the transport is paused."""
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
        """`touch` returns the telemetry meter of a topic; None if telemetry does not meter it."""
        self._limits = limits
        self.now = now
        self._touch = touch
        self.bytes_max = int(memory_bytes * limits.output_total_share)
        self._call_later = call_later
        self._cut = cut
        self.lagging: dict[Subscriber, Backlog] = {}
        # By client that is leaving, the bytes in its transport when it left.
        self._departing: dict[Subscriber, int] = {}
        self.bytes = 0
        # The topic of the run that is being written, and the number of messages; set by the publisher.
        self.topic: Topic | None = None
        self.messages = 0
        self.cuts = 0
        self.drops = 0
        # Topics that had cuts or drops, the latest last. Removed topics stay here for their counts.
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
        """Queue a piece before all other held pieces of the session, behind what its transport already has."""
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
            # The client may have read part of the transport's buffer; measuring that costs a call.
            self._measure(backlog)
            if backlog.unsent_bytes > limits.output_bytes_max:
                self._cut(backlog.session, "its unsent output exceeded output_bytes_max")
            elif backlog.unsent_bytes > limits.output_soft_bytes and backlog.timer is None:
                backlog.timer = self._call_later(limits.output_soft_s, self._cut_if_still_behind, backlog)
        if self.bytes > self.bytes_max:
            self._cut_furthest_behind()

    def depart(self, session: Subscriber) -> None:
        """The session is closing in an orderly way: pass all its held output to its transport."""
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
        """The session's transport is closed: its buffer no longer counts."""
        self.bytes -= self._departing.pop(session, 0)

    def revoke(self, session: Subscriber, is_allowed: Callable[[Topic], bool]) -> None:
        """Drop held messages of topics that the session may no longer read."""
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
        """The session is ending: count its held messages as dropped, and a cut for each topic among them."""
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
        """Remove the backlog and its bytes from the sums."""
        del self.lagging[backlog.session]
        self.bytes -= backlog.unsent_bytes
        if backlog.timer is not None:
            backlog.timer.cancel()

    def _measure(self, backlog: Backlog) -> None:
        """Measure the transport's buffer. A transport that is not paused holds little and counts as empty."""
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
