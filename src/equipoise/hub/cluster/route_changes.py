"""Change the stream that a topic's publishes are sent to.

In mode `all-subscribers` a hub publishes to one stream: the one it numbers itself if it is a home, else one chosen by
rendezvous hashing of its own name, so that publishers are spread over the homes, and adding or removing a home moves
few. A lane is used once its hub has sent SETTLED; until then the trunk is.

A hub that changes to another stream first waits until all its messages are acknowledged: the last acknowledgement has
the position of the last message in the old stream. The first message in the new stream carries that position as a
dependency, and with it those of the streams used before, so that the order survives the failure of a hub. Messages that
wait for tokens in the old stream are recalled (`lane_returns`): the new stream's tokens would be lost meanwhile.

Always true: messages of this hub's clients to one topic are never in flight in two streams.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from xxhash import xxh3_64_intdigest

from equipoise.hub.cluster.lane_state import Lane
from equipoise.hub.cluster.ports import ClusterPort
from equipoise.hub.cluster.streams import PublishRoute, Stream
from equipoise.model import Mode
from equipoise.stream.position import TRUNK

if TYPE_CHECKING:
    from equipoise.hub.cluster.lane_returns import LaneReturns
    from equipoise.hub.data.topics import Topic
    from equipoise.stream.parts import Dependency
    from equipoise.stream.submission import Submission

__all__ = ["RouteChanges", "RoutedCluster"]

# Most streams whose positions are sent with a change of stream: only the latest can matter.
TAGS_MAX = 8


class _Handover(Protocol):
    def new_stream(self, topic: Topic) -> Stream: ...
    def review(self, stream: Stream) -> None: ...


class _Lanes(Protocol):
    returns: LaneReturns

    def is_open(self, topic: Topic, hub: str) -> bool: ...


class _Dependencies(Protocol):
    def find(self, trunk: Topic, stream: bytes) -> Topic | None: ...
    def marks_of(self, topic: Topic) -> list[Dependency]: ...


class _NamedPositions(Protocol):
    def are_confirmed(self, topic: Topic) -> bool: ...


class RoutedCluster(ClusterPort, Protocol):
    """The interface of the cluster to the routes of publishes."""

    @property
    def handover(self) -> _Handover: ...
    @property
    def lanes(self) -> _Lanes: ...
    @property
    def named_positions(self) -> _NamedPositions: ...
    @property
    def tags(self) -> _Dependencies: ...


class _Ways(Protocol):
    """The publishes that follow the route."""

    def send(self, stream: Stream, way: PublishRoute, item: Submission) -> bool: ...
    def reached(self, topic: Topic) -> tuple[int, int]: ...


class RouteChanges:
    """Owned by PublishRouting."""

    def __init__(self, cluster: RoutedCluster, ways: _Ways) -> None:
        self._cluster = cluster
        self._ways = ways

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

    def progressed(self, trunk: Topic, stream: Stream, way: PublishRoute) -> None:
        """Acknowledgements arrived, or the topic's state has changed: complete a pending change of stream."""
        if not way.is_settled and self._is_settled(trunk, way.now) and self._may_leave(trunk, way):
            if way.now != way.target:
                self._note(trunk, way)
                way.change()
            way.is_recalled = False
        while stream.admission.routing and way.is_settled:
            self._ways.send(stream, way, stream.admission.take_routing())

    def lane_gone(self, lane: Lane) -> None:
        """The lane was removed: send messages that its hub certainly has not received to the next stream, first."""
        stream = lane.trunk.stream
        way = None if stream is None else stream.way
        waiting = [] if lane.stream is None else lane.stream.admission.drop_waiting(())
        if stream is None or way is None or way.now != lane.lane:
            return
        stream.admission.put_routing_first(*waiting)
        at = self._ways.reached(lane)
        if at[0]:
            # A hub that still holds pending messages of the lane then delivers them first.
            way.after[lane.lane] = at
        way.target = self._target(lane.trunk)
        way.change()
        self.progressed(lane.trunk, stream, way)

    def unsure(self, topic: Topic) -> None:
        """The hub that numbered the stream has died, perhaps with the dependencies it received: send them again."""
        stream = topic.trunk.stream
        way = None if stream is None else stream.way
        if way is not None and way.now == topic.lane:
            way.is_due = bool(way.after)

    # Inside.

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
        at = self._ways.reached(found)
        is_here = found.is_home
        for tag in self._cluster.tags.marks_of(found) if is_here else ():
            way.after[tag.stream] = max(tag[1:], way.after.get(tag.stream, (0, 0)))
        way.after.pop(way.now, None)
        if at[0]:
            way.after[way.now] = at
        while len(way.after) > TAGS_MAX:
            del way.after[next(iter(way.after))]
