"""Execute the merge of relayed streams at a hub: deliver and forward, in the order of positions.

`stream/relay.py` decides at which hub a stream is followed, and when a part is due. This module delivers due parts to
clients and to the hubs that follow this one, counts missing messages, and bounds what waits; `relay_sources` follows
and leaves hubs. Lanes are followed in the same way, each at the hub that numbers it. A part that depends on another of
the topic's streams waits for it (`dependencies`).

Always true:
    positions are passed on as the home gave them, each once, in rising order;
    `pending_bytes` is the memory of all that waits.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

from equipoise.hub.cluster.lane_state import Lane
from equipoise.hub.cluster.link.codec import encode
from equipoise.hub.cluster.link.frames import AgainFrame, FlushFrame, OpenedFrame
from equipoise.hub.cluster.pattern_gaps import send_topic_gap
from equipoise.hub.cluster.ports import ClusterPort
from equipoise.hub.cluster.relay_sources import RelaySources
from equipoise.hub.cluster.streams import Stream
from equipoise.hub.cluster.trees import Trees
from equipoise.stream.cursor import repeated
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
        self.waiting: dict[Stream, None] = {}
        # Streams with parts that were pending when a hub was lost, until these have been delivered.
        self.torn_streams: set[Stream] = set()
        sources = RelaySources(cluster, self)
        self.follow, self.succeed, self.unfollow = sources.follow, sources.succeed, sources.unfollow
        self.leave, self.leave_source, self.peer_gone = sources.leave, sources.leave_source, sources.peer_gone
        self.hub_lost, self.lane_died, self.torn = sources.hub_lost, sources.lane_died, sources.torn

    # Frames.

    def egress(self, stream: Stream, origin: str, epoch: int, first: int, payloads: Sequence[bytes]) -> None:
        # This runs once per relayed frame, so a run that is due is delivered without creating a part.
        is_stray = origin in stream.strays
        is_fed = stream.source in (None, origin) and not is_stray
        if not stream.pending and (is_fed or stream.continues(epoch, first)):
            self._deliver(stream, epoch, first, payloads)
            self.advance(stream, has_moved=True, is_message=True)
        else:
            self._wait(stream, Arrival(origin, epoch, Messages(epoch, first, payloads), is_stray))
            self.advance(stream, is_message=True)

    def filtered(self, stream: Stream, origin: str, run: FilteredRun) -> None:
        if not stream.pending and (stream.source in (None, origin) or stream.continues(run.epoch, run.n)):
            self._deliver_span(stream, run)
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
            self._jump(stream, epoch, n)
        self.advance(stream, has_moved=True)

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
        self.waiting.pop(stream, None)
        self.torn_streams.discard(stream)

    def wake(self, stream: Stream) -> None:
        """Another stream of the topic has advanced."""
        self._cluster.news.tell(stream.topic)
        self.advance(stream)

    def jump(self, stream: Stream, epoch: int, n: int) -> None:
        """Skip the stream's messages up to this position."""
        self._jump(stream, epoch, n)
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
            self.waiting.pop(stream, None)
            if stream in self.torn_streams:
                self.torn_streams.discard(stream)
                send_topic_gap(self._cluster.core, stream.topic)
        return is_any

    def _switch(self, stream: Stream) -> bool:
        switch = stream.switch(is_behind=stream.source is None and self.is_behind(stream))
        if switch is None:
            return False
        self.leave(stream, switch.left)
        if switch.jump_to is not None:
            self._jump(stream, *switch.jump_to)
        if stream.under:  # Continue from the home to the parent in the topic's tree.
            self.follow(stream)
        return True

    def _wait(self, stream: Stream, arrival: Arrival) -> None:
        stream.pending.append(arrival)
        self.waiting[stream] = None
        self.pending_bytes += arrival.size
        if self.pending_bytes > self._pending_bytes_max:
            self.overflows += 1  # Subscribers detect the hole by its positions.
            if self._cluster.tags.skip(stream):
                return
            self.leave_source(stream)

    def _take(self, stream: Stream, origin: str, part: Part) -> None:
        match part:
            case Messages(epoch, first, payloads):
                self._deliver(stream, epoch, first, payloads)
            case FilteredRun():
                self._deliver_span(stream, part)
            case Dependency():
                self._cluster.tags.mark(stream.topic, (part,))
            case Begun(epoch, n):
                stream.begun(origin)
                is_new = isinstance(stream.topic, Lane) and stream.topic.begins(epoch)
                self._jump(stream, epoch, 0 if is_new else n)
                self._cluster.lanes.began(stream)
                if is_new and stream.topic.trunk.has_subscribers:
                    # They subscribed before the lane began: the messages before n are lost, and counted.
                    self._jump(stream, epoch, n)
                elif is_new:
                    stream.topic.n = n
            case Ended(epoch, n):
                if epoch > stream.topic.epoch > 0:
                    # The lane continued after a loss, and ended before another message arrived.
                    self._skip(stream, epoch, n + 1)
                self._cluster.lanes.ended(stream, epoch, n)
            case Opened():
                self._open(stream, part)
            case Again():
                stream.again = part
                for link in stream.topic.relays or ():
                    link.send(AgainFrame(stream.topic.name, *part))

    def _deliver(self, stream: Stream, epoch: int, first: int, payloads: Sequence[bytes]) -> None:
        topic = stream.topic
        if topic.log is not None:
            topic.log.relay(epoch, first, payloads)
            return
        if epoch != topic.epoch or first != topic.n + 1:
            if topic.lane and stream.source is None and epoch != topic.epoch:
                # The reply to a request that was repeated: the lane begins here with the reply to the last request.
                return
            skip = repeated(topic.epoch, topic.n, epoch, first, len(payloads))
            if skip == len(payloads):
                return
            if skip:
                first, payloads = first + skip, payloads[skip:]
            self._skip(stream, epoch, first)
        self._cluster.core.publish(topic, payloads, first)

    def _deliver_span(self, stream: Stream, run: FilteredRun) -> None:
        """Deliver the messages of a span, each at its position; then the stream is at the end of the span."""
        topic, last = stream.topic, run.n + run.span - 1
        if (run.epoch, last) <= (topic.epoch, topic.n):
            return
        if run.epoch != topic.epoch or run.n > topic.n + 1:
            self._skip(stream, run.epoch, run.n)
        for first, payloads in run.runs(topic.n):
            topic.n = first - 1
            self._cluster.core.publish(topic, payloads, first)
        if topic.n < last:
            topic.n = last
            if topic.hub_filters is not None:
                self._cluster.asked.note_silence(topic)

    def _skip(self, stream: Stream, epoch: int, first: int) -> None:
        """The next message does not continue the stream: count the missing ones."""
        topic = stream.topic
        self.count_loss(topic, epoch, first - 1)
        if epoch != topic.epoch and (topic.lane or stream in self.torn_streams):
            send_topic_gap(self._cluster.core, topic)
        topic.jump(epoch, first - 1)

    def _open(self, stream: Stream, opened: Opened) -> None:
        topic, (epoch, after_epoch, after_n, hub, _) = stream.topic, opened
        if epoch <= topic.epoch:
            return
        if topic.hub_filters is not None:
            topic.hub_filters.account(topic)
        frame = encode(OpenedFrame(topic.name, epoch, hub, after_epoch, after_n))
        for link in topic.relays or ():
            link.write(frame)
        if topic.log is None:
            self._cluster.announce(topic, epoch, after_epoch, after_n)
            self.count_loss(topic, after_epoch or epoch, after_n)
            if topic.epoch and hub and not after_epoch:
                # The home continues after a loss: subscribers by pattern may have received the dead hub's gap too
                # early.
                send_topic_gap(self._cluster.core, topic)
        # The positions of a durable topic go on.
        topic.jump(epoch, 0 if topic.log is None else topic.n)

    def _jump(self, stream: Stream, epoch: int, n: int) -> None:
        """No message before this position will arrive any more."""
        topic = stream.topic
        if topic.log is not None:
            topic.log.relay(epoch, n + 1, ())
        elif (epoch, n) > (topic.epoch, topic.n):
            if not topic.lane:
                # A message that depends on that position may arrive in a lane before the next message of the trunk.
                self._cluster.announce(topic, epoch, 0, 0, n)
            self.count_loss(topic, epoch, n)
            topic.jump(epoch, n)

    def count_loss(self, topic: Topic, epoch: int, n: int) -> None:
        """Count the positions between the position of the topic here and the one that the next message follows."""
        if not topic.epoch:
            # The topic has no position here yet.
            return
        has_members, name = topic.trunk.has_subscribers, topic.trunk.name
        if epoch != topic.epoch:
            # Subscribers by pattern get a gap when a hub dies: the topic may only have been idle.
            if has_members:
                self._cluster.core.losses.count(name, None)
        elif n > topic.n and (has_members or self._cluster.core.audience_of(topic).receivers):
            # If the stream is filtered, it is unknown how many of the missing messages a subscriber here requested.
            count = None if self._cluster.interests.is_narrow(topic) else n - topic.n
            self._cluster.core.losses.count(name, count)
