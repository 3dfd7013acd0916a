"""Execute the merge of relayed streams at a hub: attach, deliver, forward, leave.

`stream/relay.py` decides at which hub a stream is followed, and when a part is due. This module sends frames, bounds
what waits, and passes parts that are due to `relay_delivery`. Lanes are followed in the same way, each at the hub that
numbers it. A part that depends on another of the topic's streams waits for it (`dependencies`).

Always true: `pending_bytes` is the memory of all that waits.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

from equipoise.hub.cluster.lane_state import Lane
from equipoise.hub.cluster.link.frames import AgainFrame, DetachFrame, FlushFrame
from equipoise.hub.cluster.pattern_gaps import send_hub_gap, send_topic_gap
from equipoise.hub.cluster.ports import ClusterPort
from equipoise.hub.cluster.relay_delivery import RelayDelivery
from equipoise.hub.cluster.streams import State, Stream
from equipoise.hub.cluster.trees import FollowTarget, Trees
from equipoise.stream.parts import Again, Begun, Dependency, Ended, FilteredRun, Messages, Opened, Part
from equipoise.stream.relay import Arrival
from equipoise.stream.submission import NOWHERE

if TYPE_CHECKING:
    from equipoise.hub.cluster.epoch_flush import EpochFlush
    from equipoise.hub.cluster.interests import Interests
    from equipoise.hub.cluster.peer_filters import PeerFilters
    from equipoise.hub.data.topics import Topic

__all__ = ["RelayedStreams"]


class _Handover(Protocol):
    def review(self, stream: Stream) -> None: ...


class _Lanes(Protocol):
    def began(self, stream: Stream) -> None: ...
    def ended(self, stream: Stream, epoch: int, n: int) -> None: ...


class _Dependencies(Protocol):
    @property
    def blocked(self) -> dict[Stream, None]: ...
    def mark(self, topic: Topic, tags: Iterable[Dependency]) -> None: ...
    def moved(self, topic: Topic) -> None: ...
    def must_wait(self, stream: Stream, tags: Iterable[Dependency]) -> bool: ...
    def skip(self, stream: Stream) -> bool: ...


class _Cluster(ClusterPort, Protocol):
    @property
    def asked(self) -> PeerFilters: ...
    @property
    def flushes(self) -> EpochFlush: ...
    @property
    def interests(self) -> Interests: ...
    @property
    def handover(self) -> _Handover: ...
    @property
    def lanes(self) -> _Lanes: ...
    @property
    def tags(self) -> _Dependencies: ...
    @property
    def trees(self) -> Trees: ...
    def announce(self, topic: Topic, epoch: int, after_epoch: int, after_n: int, at: int = 0) -> None: ...


class RelayedStreams:
    """The relayed streams of one hub."""

    def __init__(self, cluster: _Cluster, pending_bytes_max: int) -> None:
        self._cluster = cluster
        self._pending_bytes_max = pending_bytes_max
        self.pending_bytes = 0
        # Streams whose waiting parts were dropped for lack of room.
        self.overflows = 0
        # Streams with pending parts.
        self._waiting: dict[Stream, None] = {}
        self._delivery = RelayDelivery(cluster)
        self.count_loss = self._delivery.count_loss

    # Frames.

    def egress(self, stream: Stream, origin: str, epoch: int, first: int, payloads: Sequence[bytes]) -> None:
        # This runs once per relayed frame, so a run that is due is delivered without creating a part.
        is_stray = origin in stream.strays
        is_fed = stream.source in (None, origin) and not is_stray
        if not stream.pending and (is_fed or stream.continues(epoch, first)):
            self._delivery.deliver(stream, epoch, first, payloads)
            self.advance(stream, has_moved=True, is_message=True)
        else:
            self._wait(stream, Arrival(origin, epoch, Messages(epoch, first, payloads), is_stray))
            self.advance(stream, is_message=True)

    def filtered(self, stream: Stream, origin: str, run: FilteredRun) -> None:
        if not stream.pending and (stream.source in (None, origin) or stream.continues(run.epoch, run.n)):
            self._delivery.deliver_span(stream, run)
            self.advance(stream, has_moved=True, is_message=True)
        else:
            self._wait(stream, Arrival(origin, run.epoch, run))
            self.advance(stream, is_message=True)

    def opened(self, stream: Stream, origin: str, epoch: int, after: tuple[str, int, int]) -> None:
        hub, after_epoch, after_n = after
        self.arrive(stream, Arrival(origin, epoch, Opened(epoch, after_epoch, after_n, hub)))

    def depends(self, stream: Stream, origin: str, epoch: int, dependency: Dependency) -> None:
        """All further messages of the epoch from this hub depend on that position of another stream."""
        self.arrive(stream, Arrival(origin, epoch, dependency))

    def over(self, stream: Stream, origin: str, epoch: int, n: int) -> None:
        """The lane has ended, or there is none."""
        self.arrive(stream, Arrival(origin, epoch, Ended(epoch, n)))

    def arrive(self, stream: Stream, arrival: Arrival) -> None:
        is_taken = not stream.pending and stream.is_due(self, arrival)
        if is_taken:
            self._take(stream, arrival.origin, arrival.part)
        else:
            self._wait(stream, arrival)
        self.advance(stream, has_moved=is_taken)

    def attached(self, stream: Stream, origin: str, epoch: int, n: int) -> None:
        """A home, or a hub that follows it, sends this hub the stream after (epoch, n)."""
        if isinstance(stream.topic, Lane):
            self.arrive(stream, Arrival(origin, epoch, Begun(epoch, n)))
            return
        if stream.attached(origin, epoch, n):
            self._delivery.jump(stream, epoch, n)
        self.advance(stream, has_moved=True)

    # Sources.

    def follow(self, stream: Stream) -> None:
        """Attach to the stream's home, or to the parent in its tree, if a subscriber here needs it."""
        if stream.state is not State.REMOTE or stream.peer is None or not stream.is_wanted:
            return
        target = (trees := self._cluster.trees).target(stream, stream.peer)
        left, must_attach = stream.follow(target.hub)
        self._leave(stream, left)
        (trees.ask if must_attach else trees.ask_again)(stream, target)

    def succeed(self, stream: Stream) -> None:
        """This hub is about to close the topic: messages from the next home continue those numbered here."""
        if stream.is_wanted and stream.peer is not None:
            self._cluster.trees.ask(stream, FollowTarget(stream.peer))
            stream.succeed(stream.peer)

    def unfollow(self, stream: Stream) -> None:
        """No subscriber is left, or the stream is numbered here."""
        # A reply that is still in flight belongs to a source that this hub has left.
        stream.ticket = 0
        for hub in stream.unfollow():
            self._leave(stream, hub)

    def leave_source(self, stream: Stream) -> None:
        """The source will not send the missing part of the stream: leave it."""
        self._leave(stream, stream.source)
        stream.source = None

    def peer_gone(self, stream: Stream, hub: str, *, is_gone: bool = True) -> None:
        """The hub is dead (`is_gone`), or its link has restarted: then the source is requested again."""
        stream.lost(hub, is_gone=is_gone)
        self._cluster.flushes.peer_gone(stream, hub)
        self._cluster.interests.left(stream, hub)
        self.advance(stream)

    def hub_lost(self) -> None:
        """A hub is dead, or its frames are void: subscribers by pattern get a gap, since no position shows the loss.

        For a stream with pending parts they get another gap, between these parts and what follows.
        """
        send_hub_gap(self._cluster.core)
        self._delivery.torn.update(self._waiting)

    def lane_died(self, stream: Stream, hub: str) -> None:
        """The hub of a lane is dead: queue the end of the lane, which is unknown, behind its pending parts."""
        epoch = max(arrival.epoch for arrival in stream.pending)
        self.arrive(stream, Arrival(hub, epoch, Ended(0, 0)))

    def torn(self, stream: Stream) -> None:
        """All received parts of a lane whose hub is dead are delivered: no further part will arrive."""
        self.count_loss(stream.topic, stream.topic.epoch + 1, 0)
        self._delivery.torn.discard(stream)
        send_topic_gap(self._cluster.core, stream.topic)

    def is_behind(self, stream: Stream) -> bool:
        """Whether subscribers by pattern here have to receive a pending part first."""
        if not stream.pending:
            return False
        is_dependent = any(isinstance(arrival.part, Dependency) for arrival in stream.pending)
        is_filtered = stream.topic.trunk.content is not None
        return is_dependent or is_filtered or self._cluster.core.audience_of(stream.topic).receivers > 0

    def drop_pending(self, stream: Stream) -> None:
        self.pending_bytes -= sum(arrival.size for arrival in stream.pending)
        stream.pending.clear()
        stream.flushes.clear()
        self._waiting.pop(stream, None)
        self._delivery.torn.discard(stream)

    def wake(self, stream: Stream) -> None:
        """Another stream of the topic has advanced."""
        self._cluster.news.tell(stream.topic)
        self.advance(stream)

    def jump(self, stream: Stream, epoch: int, n: int) -> None:
        """Skip the stream's messages up to this position."""
        self._delivery.jump(stream, epoch, n)
        self.advance(stream, has_moved=True)

    # Queries of stream/relay.py.

    def is_passed(self, stream: Stream, dependency: Dependency) -> bool:
        return not self._cluster.tags.must_wait(stream, (dependency,))

    def is_alive(self, hub: str) -> bool:
        return hub in self._cluster.out

    def flush(self, stream: Stream, hub: str, epoch: int) -> None:
        self._cluster.tell(hub, FlushFrame(stream.topic.name, epoch))

    # Inside.

    def advance(self, stream: Stream, *, has_moved: bool = False, is_message: bool = False) -> None:
        """Deliver parts that are due, change the source, and continue what waits for this position. A delivered message
        does not affect the handover, unless this hub waits for an end.
        """
        while (stream.pending and self._take_due(stream)) or (stream.join_at and self._switch(stream)):
            has_moved, is_message = True, False
        if not is_message or stream.ending is not None or stream.again[0]:
            if stream.position >= stream.again:
                stream.again = NOWHERE
            self._cluster.handover.review(stream)
        if has_moved and self._cluster.tags.blocked:
            self._cluster.tags.moved(stream.topic)
        if has_moved and stream.interest is not None:
            self._cluster.interests.moved(stream)

    def _take_due(self, stream: Stream) -> bool:
        is_any = False
        for arrival in stream.due(self):
            is_any = True
            self.pending_bytes -= arrival.size
            if not stream.is_void(arrival):
                self._take(stream, arrival.origin, arrival.part)
        if not stream.pending:
            self._waiting.pop(stream, None)
            if stream in self._delivery.torn:
                self._delivery.torn.discard(stream)
                send_topic_gap(self._cluster.core, stream.topic)
        return is_any

    def _switch(self, stream: Stream) -> bool:
        switch = stream.switch(is_behind=stream.source is None and self.is_behind(stream))
        if switch is None:
            return False
        self._leave(stream, switch.left)
        if switch.jump_to is not None:
            self._delivery.jump(stream, *switch.jump_to)
        if stream.under:  # Continue from the home to the parent in the topic's tree.
            self.follow(stream)
        return True

    def _wait(self, stream: Stream, arrival: Arrival) -> None:
        stream.pending.append(arrival)
        self._waiting[stream] = None
        self.pending_bytes += arrival.size
        if self.pending_bytes > self._pending_bytes_max:
            self.overflows += 1  # Subscribers detect the hole by its positions.
            if self._cluster.tags.skip(stream):
                return
            self.leave_source(stream)

    def _take(self, stream: Stream, origin: str, part: Part) -> None:
        match part:
            case Messages(epoch, first, payloads):
                self._delivery.deliver(stream, epoch, first, payloads)
            case FilteredRun():
                self._delivery.deliver_span(stream, part)
            case Dependency():
                self._cluster.tags.mark(stream.topic, (part,))
            case Begun(epoch, n):
                stream.begun(origin)
                is_new = isinstance(stream.topic, Lane) and stream.topic.begins(epoch)
                self._delivery.jump(stream, epoch, 0 if is_new else n)
                self._cluster.lanes.began(stream)
                if is_new and stream.topic.trunk.has_subscribers:
                    # They subscribed before the lane began: the messages before n are lost, and counted.
                    self._delivery.jump(stream, epoch, n)
                elif is_new:
                    stream.topic.n = n
            case Ended(epoch, n):
                if epoch > stream.topic.epoch > 0:
                    # The lane continued after a loss, and ended before another message arrived.
                    self._delivery.skip(stream, epoch, n + 1)
                self._cluster.lanes.ended(stream, epoch, n)
            case Opened():
                self._delivery.open(stream, part)
            case Again():
                stream.again = part
                for link in stream.topic.relays or ():
                    link.send(AgainFrame(stream.topic.name, *part))

    def _leave(self, stream: Stream, hub: str | None) -> None:
        if hub is not None:
            self._cluster.tell(hub, DetachFrame(stream.topic.key))
            self._cluster.flushes.left(stream, hub)
            self._cluster.interests.left(stream, hub)
