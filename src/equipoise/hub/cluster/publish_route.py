"""Choose the stream of a client's publish, and change it in order.

In mode `all-subscribers` a hub publishes to one stream: the one it numbers itself if it is a home, else one chosen by
rendezvous hashing of its own name, so that publishers are spread over the homes, and adding or removing a home moves
few. A lane is used once its hub has sent SETTLED; until then the trunk is.

A hub that changes to another stream first waits until all its messages are acknowledged: the last acknowledgement has
the position of the last message in the old stream. The first message in the new stream carries that position as a
dependency, and with it those of the streams used before, so that the order survives the failure of a hub. Messages that
wait for tokens in the old stream are recalled (`lane_returns`): the new stream's tokens would be lost meanwhile.

Always true: messages of this hub's clients to one topic are never in flight in two streams; further messages wait, in
order. `client_acks` counts their acknowledgements.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from xxhash import xxh3_64_intdigest

from equipoise.hub.cluster.lane_state import Lane
from equipoise.hub.cluster.link.frames import Tag
from equipoise.hub.cluster.ports import ClusterPort
from equipoise.hub.cluster.streams import PublishRoute, Stream
from equipoise.hub.data.reply import LATE, LOST, NO_ROOM, Reply
from equipoise.hub.data.topic import own_replies
from equipoise.model import Mode
from equipoise.resp.replies import error
from equipoise.stream.position import TRUNK
from equipoise.stream.submission import NOWHERE, Ack, Submission

if TYPE_CHECKING:
    from equipoise.hub.cluster.client_acks import ClientAcks
    from equipoise.hub.cluster.lane_returns import LaneReturns
    from equipoise.hub.data.topics import Topic
    from equipoise.stream.parts import Dependency

__all__ = ["PublishRouting"]

# Most streams whose positions are sent with a change of stream: only the latest can matter.
TAGS_MAX = 8


class _Handover(Protocol):
    def new_stream(self, topic: Topic) -> Stream: ...
    def review(self, stream: Stream) -> None: ...


class _Ingress(Protocol):
    def is_vouched(self, stream: Stream) -> bool: ...
    def submit(self, topic: Topic, item: Submission) -> bool: ...
    def give_up(self, stream: Stream, acks: Sequence[Ack]) -> None: ...


class _Lanes(Protocol):
    returns: LaneReturns

    def is_open(self, topic: Topic, hub: str) -> bool: ...


class _Dependencies(Protocol):
    def find(self, trunk: Topic, stream: bytes) -> Topic | None: ...
    def marks_of(self, topic: Topic) -> list[Dependency]: ...


class _NamedPositions(Protocol):
    def are_confirmed(self, topic: Topic) -> bool: ...


class _Cluster(ClusterPort, Protocol):
    @property
    def handover(self) -> _Handover: ...
    @property
    def ingress(self) -> _Ingress: ...
    @property
    def lanes(self) -> _Lanes: ...
    @property
    def named_positions(self) -> _NamedPositions: ...
    @property
    def receipts(self) -> ClientAcks: ...
    @property
    def tags(self) -> _Dependencies: ...


class PublishRouting:
    """Chooses the stream of each topic's publishes, and changes it. Owned by the cluster."""

    def __init__(self, cluster: _Cluster) -> None:
        self._cluster = cluster

    def publish(self, topic: Topic, payloads: Sequence[bytes]) -> bytes | Reply:
        """Publish for a client: the reply to each message, empty where `own_replies` has them; or a pending one to all.

        At a hub other than the home, the reply counts the receivers at all hubs, as of a second ago, and the matching
        filters of this hub. The reply is pending if a message waits at a gate, or if its loss would not be reported.
        """
        if (content := topic.content) is not None:
            content.counts = []
        if not self.admit(topic, payloads):
            return error(NO_ROOM)
        if content is not None:
            content.count(payloads)
        return self.answer(topic, len(payloads), is_filtered=content is not None)

    def answer(self, topic: Topic, count: int, *, is_filtered: bool = False) -> bytes | Reply:
        """The reply to each of the messages that were just admitted, or a pending reply to all."""
        audience = self._cluster.core.audience_of(topic)
        each = b"" if is_filtered else audience.common_reply
        if self._may_answer(topic):
            return each
        reply, replies = Reply(expired=lambda: error(LATE) * count), each * count or own_replies(topic)
        self._cluster.receipts.when_acked(
            topic, count, lambda at, is_lost: reply.complete(error(LOST) * count if is_lost else replies)
        )
        return reply

    def _may_answer(self, topic: Topic) -> bool:
        """Whether a message that was just admitted may be acknowledged at once."""
        stream = topic.stream
        if stream is None:
            return True
        if stream.admission.routing or (stream.admission.gates and () in stream.admission.waiting):
            return False
        found = topic if stream.way is None else self._cluster.tags.find(topic, stream.way.now) or topic
        return found.stream is None or self._cluster.ingress.is_vouched(found.stream)

    def admit(self, topic: Topic, payloads: Sequence[bytes], after: Sequence[Tag] = ()) -> bool:
        """Accept messages of a client of this hub, to be numbered; False if there is no room."""
        if topic.news != self._cluster.news.latest:
            self._cluster.news.tell(topic)
        stream = topic.stream
        item = Submission((), 0, payloads, after)
        self._cluster.receipts.take(topic, len(payloads))
        if stream is None or stream.way is None:
            is_taken = self._cluster.ingress.submit(topic, item)
        else:
            is_taken = self._choose(stream, stream.way, item)
        if not is_taken:
            self._cluster.receipts.take(topic, -len(payloads))
        return is_taken

    def refuse_waiting(self, topic: Topic) -> None:
        """The topic has become durable: fail the messages that wait here, whose clients have no reply yet."""
        if topic.stream is not None:
            waiting = topic.stream.admission.drop_waiting(())
            self._cluster.ingress.give_up(
                topic.stream, [Ack((), item.messages, *NOWHERE) for item in waiting]
            )

    def _choose(self, stream: Stream, way: PublishRoute, item: Submission) -> bool:
        """Send messages of clients to the current stream, or hold them during a change; False if there is no room."""
        if way.is_settled and not stream.admission.routing:
            return self._send(stream, way, item)
        if not stream.admission.has_room(item):
            return False
        stream.admission.put_routing(item)
        return True

    def retarget(self, topic: Topic) -> None:
        """The plan, or the set of open lanes, has changed: choose the topic's stream again."""
        target = self._target(topic)
        stream = topic.stream
        if target == TRUNK and (stream is None or stream.way is None):
            return
        if stream is None:
            stream = self._cluster.handover.new_stream(topic)
        way = stream.way = stream.way or PublishRoute()
        way.target = target
        self._may_leave(topic, way)
        self._cluster.lanes.returns.recall(stream, way, self._cluster.tags.find(topic, way.now))
        self._cluster.handover.review(stream)

    def progressed(self, trunk: Topic) -> None:
        """Acknowledgements arrived, or the topic's state has changed: complete a pending change of stream."""
        stream = trunk.stream
        if stream is None or (way := stream.way) is None:
            return
        if not way.is_settled and self._is_settled(trunk, way.now) and self._may_leave(trunk, way):
            if way.now != way.target:
                self._note(trunk, way)
                way.change()
            way.is_recalled = False
        while stream.admission.routing and way.is_settled:
            self._send(stream, way, stream.admission.take_routing())

    def lane_gone(self, lane: Lane) -> None:
        """The lane was removed: send messages that its hub certainly has not received to the next stream, first."""
        stream = lane.trunk.stream
        way = None if stream is None else stream.way
        waiting = [] if lane.stream is None else lane.stream.admission.drop_waiting(())
        if stream is None or way is None or way.now != lane.lane:
            return
        stream.admission.put_routing_first(*waiting)
        at = self._reached(lane)
        if at[0]:
            # A hub that still holds pending messages of the lane then delivers them first.
            way.after[lane.lane] = at
        way.target = self._target(lane.trunk)
        way.change()
        self.progressed(lane.trunk)

    def unsure(self, topic: Topic) -> None:
        """The hub that numbered the stream has died, perhaps with the dependencies it received: send them again."""
        stream = topic.trunk.stream
        way = None if stream is None else stream.way
        if way is not None and way.now == topic.lane:
            way.is_due = bool(way.after)

    def stream_now(self, trunk: Topic) -> Topic:
        """The stream that this hub's clients publish to; the trunk if there is no other."""
        way = None if trunk.stream is None else trunk.stream.way
        return trunk if way is None else self._cluster.tags.find(trunk, way.now) or trunk

    def position(self, trunk: Topic) -> Tag:
        """The position of the last message of this hub's clients, in the stream that it was sent to."""
        way = None if trunk.stream is None else trunk.stream.way
        if way is not None and way.is_unused and way.after:
            name = next(reversed(way.after))
            return Tag(name, *way.after[name])
        found = self.stream_now(trunk)
        return Tag(found.lane, *self._reached(found))

    def after(self, trunk: Topic) -> tuple[Tag, ...]:
        """Dependencies of this hub's next messages on streams that it used before."""
        way = None if trunk.stream is None else trunk.stream.way
        return () if way is None else tuple(Tag(name, *at) for name, at in way.after.items())

    # Inside.

    def _send(self, stream: Stream, way: PublishRoute, item: Submission) -> bool:
        if way.is_due:
            way.is_due = False
            item = item._replace(after=(*item.after, *self.after(stream.topic)))
        way.is_unused = False
        return self._cluster.ingress.submit(self.stream_now(stream.topic), item)

    def _target(self, topic: Topic) -> bytes:
        cluster = self._cluster
        placement = cluster.router.placement(topic.name)
        homes = placement.homes
        if placement.mode is not Mode.ALL_SUBSCRIBERS or homes[0] == cluster.name:
            return TRUNK
        home = cluster.name if cluster.name in homes else max(homes, key=lambda hub: self._lot(topic, hub))
        return home.encode() if cluster.lanes.is_open(topic, home) else TRUNK

    def _lot(self, topic: Topic, home: str) -> tuple[int, str]:
        """The rendezvous hash of this hub and a home: the greatest wins, so a change of homes moves few publishers."""
        return xxh3_64_intdigest(b"%b %b " % (self._cluster.name.encode(), home.encode()) + topic.name), home

    def _is_settled(self, trunk: Topic, name: bytes) -> bool:
        """Whether all messages of this hub's clients in a stream are numbered, or known to be lost."""
        found = self._cluster.tags.find(trunk, name)
        stream = None if found is None else found.stream
        if stream is None:
            return True
        return stream.admission.is_settled(())

    def _may_leave(self, trunk: Topic, way: PublishRoute) -> bool:
        """Whether the dependency on the stream that is left is confirmed."""
        found = None if way.now == way.target else self._cluster.tags.find(trunk, way.now)
        return found is None or self._cluster.named_positions.are_confirmed(found)

    def _note(self, trunk: Topic, way: PublishRoute) -> None:
        """Record the reached position of the stream that is left, as a dependency."""
        found = self._cluster.tags.find(trunk, way.now)
        if found is None:
            return
        at = self._reached(found)
        is_here = found.is_home
        for tag in self._cluster.tags.marks_of(found) if is_here else ():
            way.after[tag.stream] = max(tag[1:], way.after.get(tag.stream, (0, 0)))
        way.after.pop(way.now, None)
        if at[0]:
            way.after[way.now] = at
        while len(way.after) > TAGS_MAX:
            del way.after[next(iter(way.after))]

    def _reached(self, topic: Topic) -> tuple[int, int]:
        """The position that this hub's next message follows: the stream's last one if it is numbered here."""
        stream = topic.stream
        if stream is None or stream.state.is_home:
            return topic.epoch, topic.n
        return max(stream.admission.numbered_at, stream.confirmed)
