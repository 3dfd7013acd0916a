"""Execute admission: forward messages of clients and hubs to the hub that numbers them.

`stream/admission` decides what may go on and what waits; here it is numbered, sent to the next hub, or dropped, and
acknowledged to where it came from. A hub whose topic has a new home sends nothing there before the old one has
acknowledged all that it was sent, so no publisher's messages overtake each other, whichever way they go.

Messages that were in flight through a hub that died are lost, except those that `failover` resends. Messages that no
connection had taken go to the next home. Messages without room, or lost by a link, are numbered as a loss.

Always true: once a hub knows that an incarnation of another is over, it passes on nothing that went through it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from equipoise.hub.cluster.link.capability import RESEND
from equipoise.hub.cluster.link.codec import encode, runs
from equipoise.hub.cluster.link.frames import (
    IngressFrame,
    LossFrame,
    NumberedFrame,
    RecountFrame,
    RunFrame,
    TearFrame,
)
from equipoise.hub.cluster.link.link import name_origin
from equipoise.hub.cluster.ports import ClusterPort
from equipoise.hub.cluster.streams import State, Stream
from equipoise.stream.submission import GONE, NOWHERE, Ack, Budget, NextHop, Path, Submission, WaitReason

if TYPE_CHECKING:
    from equipoise.hub.cluster.failover import Failover
    from equipoise.hub.cluster.leaving import Leaving
    from equipoise.hub.cluster.link.frames import Tag
    from equipoise.hub.cluster.link.link import OutLink
    from equipoise.hub.data.topics import Topic
    from equipoise.stream.parts import Dependency

__all__ = ["HOPS_MAX", "Ingress"]

# Each hop leads to a newer plan, or past a dead hub, so messages do not go in circles. After these the message is lost.
HOPS_MAX = 64


class _Handover(Protocol):
    def new_stream(self, topic: Topic) -> Stream: ...
    def review(self, stream: Stream) -> None: ...


class _Acks(Protocol):
    def acked(self, topic: Topic, count: int, at: tuple[int, int]) -> None: ...
    def take(self, topic: Topic, count: int) -> None: ...


class _Dependencies(Protocol):
    def mark(self, topic: Topic, tags: Iterable[Dependency]) -> None: ...
    def must_wait(self, stream: Stream, tags: Iterable[Dependency]) -> bool: ...


class _Feeders(Protocol):
    @property
    def topics(self) -> Mapping[str, set[bytes]]: ...
    def note(self, key: bytes, hub: str) -> None: ...
    def tear(self, topic: Topic) -> int: ...


class _Routes(Protocol):
    def after(self, trunk: Topic) -> tuple[Tag, ...]: ...
    def unsure(self, topic: Topic) -> None: ...


class _Cluster(ClusterPort, Protocol):
    failover: Failover
    leaving: Leaving

    @property
    def feeders(self) -> _Feeders: ...
    @property
    def handover(self) -> _Handover: ...
    @property
    def receipts(self) -> _Acks: ...
    @property
    def tags(self) -> _Dependencies: ...
    @property
    def ways(self) -> _Routes: ...


class Ingress:
    """Owned by the cluster: the only one to change the admission of streams, but for publish_route."""

    def __init__(self, cluster: _Cluster, pending_bytes_max: int) -> None:
        self._cluster = cluster
        self.budget = Budget(pending_bytes_max)
        # Lost messages: in flight when a hub died or a link restarted.
        self.lost = 0
        # Messages dropped here, for lack of room or after too many hops.
        self.dropped = 0
        # By hub, streams with messages that wait until the link to it has room.
        self._held_back: dict[str, dict[Stream, None]] = {}

    def submit(self, topic: Topic, item: Submission) -> bool:
        """Accept messages for one stream of a topic; False without room."""
        stream = topic.stream
        if stream is None:
            limits, count = self._cluster.limits, len(item.payloads)
            if not item.after and (topic.limit is None or item.lost or limits.room(topic) >= count):
                self._number(topic, item)
                return True
            # Its dependencies may have to arrive here first.
            stream = self._cluster.handover.new_stream(topic)
            is_taken = self._admit(stream, item)
            if not stream.admission.waiting:
                topic.stream = None
            return is_taken
        return self._admit(stream, item)

    def _admit(self, stream: Stream, item: Submission) -> bool:
        admission = stream.admission
        hop = self._route(stream)
        if item.path not in admission.waiting and self.waiting_for(stream, item, hop) is None:
            self._pass(stream, item, hop)
        elif admission.has_room(item):
            admission.put(item)
            self._await_room(stream)
        elif not item.path:
            return False
        else:
            # Its publisher has a reply: a loss is forwarded in its place.
            self.dropped += item.messages
            admission.put_loss(item.path, item.version, item.messages, item.after)
        if admission.tokens is not None:
            self._line_up(stream, item.path)
        return True

    def drain(self, stream: Stream) -> None:
        """Pass on waiting messages, as far as they may go now."""
        admission = stream.admission
        if admission.loss and not stream.state.is_home:
            self._hand_on_loss(stream)
        for path in list(admission.waiting):
            while (items := admission.waiting.get(path)) and self.waiting_for(stream, items[0]) is None:
                self._pass(stream, admission.take(path), self._route(stream))
            self._line_up(stream, path)
        if admission.waiting:
            self._await_room(stream)

    def _await_room(self, stream: Stream) -> None:
        way = self._route(stream).way
        link = None if way is None else self._cluster.out.get(way[0])
        if link is not None and link.is_full:
            self._held_back.setdefault(link.hub, {})[stream] = None
            link.is_awaited = True

    def has_room(self, link: OutLink) -> None:
        """The link can take messages again."""
        link.is_awaited = False
        for stream in self._held_back.pop(link.hub, {}):
            self._cluster.news.tell(stream.topic)
            self.drain(stream)

    def release(self, stream: Stream, path: Path) -> bool:
        """Number a message of a path whose turn for a token it is; False if it has to wait for another reason."""
        items = stream.admission.waiting.get(path)
        if not items or not stream.state.is_home or self.waiting_for(stream, items[0]) is not None:
            return False
        self._pass(stream, stream.admission.take(path), self._route(stream))
        self._line_up(stream, path)
        return True

    def _line_up(self, stream: Stream, path: Path) -> None:
        """Have the rest of a path take turns if it waits for tokens, or if a token has come since it was held."""
        items, limit = stream.admission.waiting.get(path), stream.topic.limit
        if items and limit is not None and stream.admission.tokens is not None and path not in limit.ring:
            hop = self._route(stream)
            reason = self.waiting_for(stream, items[0], hop)
            if reason is WaitReason.TOKENS or (reason is None and hop.is_here):
                self._cluster.limits.line_up(stream.topic, path)

    def waiting_for(self, stream: Stream, item: Submission, hop: NextHop | None = None) -> WaitReason | None:
        """Why a submission has to wait, if it is the oldest of its path. `hop`: its next hop, if that is known."""
        must_wait, hop = self._cluster.tags.must_wait, hop or self._route(stream)
        return stream.admission.waiting_for(item, hop, lambda after: must_wait(stream, after))

    def is_vouched(self, stream: Stream) -> bool:
        """Whether a message may be acknowledged before it has its position: if this hub dies, its loss is reported."""
        # Not at a hub that is to be the home and has no way: the former home may go on in its epoch.
        return stream.state.is_home or self._route(stream).way == (stream.admission.vouched or ("", 0))

    def reason(self, topic: Topic) -> WaitReason | None:
        stream = topic.stream
        if stream is None:
            return None
        if stream.admission.routing:
            return WaitReason.ROUTE
        return next((self.waiting_for(stream, items[0]) for items in stream.admission.waiting.values()), None)

    def discard(self, stream: Stream) -> None:
        for path in list(stream.admission.waiting):
            for item in stream.admission.drop_waiting(path):
                self._drop(stream.topic, item)

    # Acknowledgements.

    def acknowledge(self, path: Path, key: bytes, count: int, at: tuple[int, int]) -> None:
        """Acknowledge `count` messages to the hub that sent them by `path`; the last has position `at`."""
        link = self._cluster.out.get(path[-1][0])
        if link is not None:
            link.send(NumberedFrame(key, path[:-1], count, *at))

    def acked(self, stream: Stream, peer: str, path: Path, count: int, at: tuple[int, int]) -> None:
        """The peer acknowledges `count` more messages of this path; the last has position `at`."""
        self._carry_out(stream.topic, stream.admission.acked(peer, path, count, at))
        if stream.admission.waiting or stream.admission.loss:
            self.drain(stream)
        if (trunk := stream.topic.trunk).limit is not None:
            self._cluster.limits.progressed(trunk)

    def void(self, stream: Stream, peer: str, *, may_be_lost: bool) -> None:
        """A link between this hub and another restarted: messages, or acknowledgements, are lost with it.

        It is unknown which. Messages of the same path wait until the peer has reported how many it still has (RECOUNT).
        """
        ticket = self._cluster.new_ticket()
        paths = stream.admission.void(peer, ticket, may_be_lost=may_be_lost)
        if paths:
            self._cluster.ways.unsure(stream.topic)
        for path in paths:
            self._cluster.tell(peer, RecountFrame(stream.topic.key, path, ticket))

    def recounted(self, stream: Stream, peer: str, path: Path, ticket: int, count: int) -> None:
        """The peer still has this many of the unresolved messages."""
        admission, is_urgent = stream.admission, bool((beside := stream.topic.beside) and beside.lanes)
        outcome = admission.recounted(peer, path, ticket, count, is_urgent=is_urgent)
        if isinstance(outcome, Ack):
            self.lost += outcome.messages
            self._carry_out(stream.topic, (outcome,))
        elif outcome is not None:
            self.lost += outcome.lost
            if is_urgent and not path:
                admission.follow_loss(stream.topic.epoch)
        self.drain(stream)

    # Hubs that die.

    def target_died(self, stream: Stream, peer: str, unsent: Iterable[Submission]) -> None:
        """A hub that messages went to is dead. It cannot have seen the last of them, `unsent`: they wait again."""
        admission, after = stream.admission, self._cluster.ways.after(stream.topic.trunk)
        # Then the home reports a gap, in a later epoch.
        is_told = admission.vouched is not None and admission.vouched[0] == peer
        acks = admission.target_died(
            peer, unsent, after, is_seen_told=self._cluster.failover.may_resend(stream)
        )
        if admission.is_doubtful:
            self._cluster.failover.doubtful[stream] = peer
        lost_in = admission.follow_loss(stream.topic.epoch) if acks and is_told else 0
        self.give_up(stream, [ack._replace(n=lost_in) for ack in acks])

    def give_up(self, stream: Stream, acks: Sequence[Ack]) -> None:
        self.lost += sum(ack.messages for ack in acks)
        self._carry_out(stream.topic, acks)

    # Inside.

    def _route(self, stream: Stream) -> NextHop:
        """Where messages go: here, to the home, or to the present home while it offers the topic to this hub."""
        if stream.state.is_home:
            return NextHop(is_here=True)
        is_remote = stream.state is State.REMOTE
        target = stream.peer if is_remote else stream.preparer if stream.ending is None else None
        if target is None:
            return NextHop(is_here=False)
        version = self._cluster.router.version if is_remote else None
        link = self._cluster.out.get(target)
        is_up = link is not None and not link.is_full and target not in self._cluster.leaving.hubs
        return NextHop(False, (target, stream.term), is_up, version)

    def _pass(self, stream: Stream, item: Submission, hop: NextHop) -> None:
        if stream.state.is_home:
            self._number(stream.topic, self._within_room(stream, item))
        elif item.path and self.is_void(item):
            self._drop(stream.topic, item)
        elif len(item.path) >= HOPS_MAX:
            self.dropped += item.messages
            self._settle(stream.topic, item, NOWHERE)
        else:
            self._send(stream, item, hop.way)

    def _within_room(self, stream: Stream, item: Submission) -> Submission:
        if stream.topic.limit is None or item.lost:
            return item
        room = self._cluster.limits.room(stream.topic)
        if room >= len(item.payloads):
            return item
        rest = item.sequence and item.sequence + room
        stream.admission.put_first(item._replace(payloads=item.payloads[room:], after=(), sequence=rest))
        return item._replace(payloads=item.payloads[:room])

    def is_void(self, item: Submission) -> bool:
        """Whether a hub that the messages have passed is dead: later messages may have arrived by another way."""
        dead = self._cluster.router.dead
        return bool(item.path) and (item.path == GONE or not dead.keys().isdisjoint(item.path))

    def _drop(self, topic: Topic, item: Submission) -> None:
        self.lost += item.messages
        self._settle(topic, item, NOWHERE)

    def _settle(self, topic: Topic, item: Submission, at: tuple[int, int]) -> None:
        self._carry_out(topic, (Ack(item.path, item.messages, *at),))

    def _number(self, topic: Topic, item: Submission) -> None:
        """Give the messages their positions. Losses before them have positions, too: subscribers detect them."""
        if self.is_void(item):
            self._drop(topic, item)
            return
        if topic.log is not None and item.path:
            # From a hub without logs: a loss has no number here.
            topic.log.take_in(() if item.lost else item.payloads, lambda at: self._settle(topic, item, at))
            return
        if item.after:
            self._cluster.tags.mark(topic, item.after)
        if item.lost:
            lost_in = self._cluster.feeders.tear(topic) if item.is_doubtful else 0
            if not item.is_doubtful:
                (topic.stream or self._cluster.handover.new_stream(topic)).admission.loss += item.lost
            self._settle(topic, item, (0, lost_in))
            return
        if item.path:
            metering, trunk, feeders = self._cluster.core.metering, topic.trunk, self._cluster.feeders
            if trunk.publisher is not None or (trunk.meter is None and metering.is_on):
                metering.published_elsewhere(trunk)
            for hub, _ in item.path:
                if topic.key not in feeders.topics.get(hub, ()):
                    feeders.note(topic.key, hub)
        stream = topic.stream
        has_loss = stream is not None and stream.admission.loss > 0
        if stream is not None and has_loss:
            self._cluster.core.losses.count(topic.trunk.name, stream.admission.loss)
            topic.jump(topic.epoch, topic.n + stream.admission.loss)
            stream.admission.loss = 0
        if topic.limit is not None:
            self._cluster.limits.spend(topic.limit, len(item.payloads))
        if len(item.path) > 1:
            self._cluster.failover.note_passed(topic.key, item.path)
        if item.path and (item.sequence or len(item.path) > 1):
            name_origin(self._cluster.core.audience_of(topic).hubs, topic.key, item)
            if topic.hub_filters is not None:
                topic.hub_filters.origin = item
        self._cluster.core.publish(topic, item.payloads)
        self._carry_out(topic, (Ack(item.path, len(item.payloads), topic.epoch, topic.n),))
        if stream is not None and has_loss:
            self._cluster.handover.review(stream)  # The stream may need no state any more.

    def _hand_on_loss(self, stream: Stream) -> None:
        """The topic has moved before a message followed the loss: the new home numbers the loss."""
        count, stream.admission.loss = stream.admission.loss, 0
        if not stream.topic.lane:
            self._cluster.receipts.take(stream.topic, count)
            stream.admission.put_loss((), 0, count)

    def _send(self, stream: Stream, item: Submission, way: tuple[str, int] | None) -> None:
        cluster, topic = self._cluster, stream.topic
        assert way is not None, "without a route it waits"
        link, version = cluster.out[way[0]], cluster.router.version
        after, size = tuple(item.after), 0
        if item.lost:
            frame_type = TearFrame if item.is_doubtful else LossFrame
            loss = frame_type(topic.key, version, item.path, after, item.lost)
            if link.can(frame_type.capability):
                stream.admission.sent(way, item.path, item.lost)
                link.send(loss)
            else:
                self._carry_out(topic, (Ack(item.path, item.lost, *NOWHERE),))
            return
        is_kept = not (item.path or after or topic.lane) and topic.limit is None and link.can(RESEND)
        for _, part in runs(item.payloads, cluster.core.limits.payload_bytes_max):
            if is_kept:
                sequence = cluster.failover.sequence + 1
                cluster.failover.sequence += len(part)
                frame = encode(RunFrame(topic.key, version, sequence, part))
                stream.admission.kept.append((sequence, part))
            else:
                frame = encode(IngressFrame(topic.key, version, item.path, after, part))
            size += len(frame)
            # First: writing it may give up all that is in flight.
            stream.admission.sent(way, item.path, len(part))
            link.write(frame)
            after = ()
        metering = cluster.core.metering
        meter = topic.trunk.meter or (metering.touch(topic) if metering.is_on else None)
        if meter is not None:
            meter.note_ingress(len(item.payloads), size)

    def _carry_out(self, topic: Topic, acks: Iterable[Ack]) -> None:
        for path, messages, epoch, n in acks:
            if not path:
                self._cluster.receipts.acked(topic, messages, (epoch, n))
            elif path != GONE:
                self.acknowledge(path, topic.key, messages, (epoch, n))
