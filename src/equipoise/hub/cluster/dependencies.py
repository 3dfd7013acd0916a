"""Order between the streams of one topic: positions of one stream that must follow positions of another.

A publisher (a hub for its clients, or a smart client) that changes from one stream of a topic to another sends the
positions that it has reached in the previous streams: dependencies. The hub that numbers the new stream inserts them
into it, and every hub with subscribers of both streams holds the messages after a dependency until it has passed the
position that the dependency names. The numbering hub itself waits before it numbers the message, so that it never has
to hold back its own messages from its subscribers.

Waiting has no cycles: a dependency names only positions assigned before it. The exception is a dependency on the whole
lane of a dead hub, which may still number if it was declared dead too early; such a dependency is skipped if it would
block. Waiting also ends when the other stream has ended here or its hub is dead.

Always true: `blocked` holds every stream in which something waits for another stream of its topic.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol

from equipoise.hub.cluster.lane_state import Lane, TopicLanes
from equipoise.hub.cluster.link.codec import encode
from equipoise.hub.cluster.link.frames import AfterFrame
from equipoise.hub.cluster.ports import ClusterPort
from equipoise.hub.cluster.streams import State
from equipoise.resp.replies import bulk, integer, push
from equipoise.stream.parts import Dependency, FilteredRun, Messages

if TYPE_CHECKING:
    from equipoise.hub.cluster.link.link import OutLink
    from equipoise.hub.cluster.streams import Stream
    from equipoise.hub.data.session import Session
    from equipoise.hub.data.topics import Topic

__all__ = ["Dependencies"]


# Position of a dependency on a whole lane in the epoch: the lane's hub is dead.
WHOLE = 2**53 - 1


class _Lanes(Protocol):
    def of(self, topic: Topic) -> list[Lane]: ...
    def settle(self) -> None: ...


class _Subscriptions(Protocol):
    def is_claimed(self, topic: Topic, stream: bytes) -> bool: ...
    def push(self, topic: Topic, frame: bytes) -> None: ...


class _Relays(Protocol):
    def jump(self, stream: Stream, epoch: int, n: int) -> None: ...
    def wake(self, stream: Stream) -> None: ...


class _Patterns(Protocol):
    def links(self, topic: bytes) -> list[OutLink]: ...


class _Cluster(ClusterPort, Protocol):
    @property
    def lanes(self) -> _Lanes: ...
    @property
    def subscriptions(self) -> _Subscriptions: ...
    @property
    def merging(self) -> _Relays: ...
    @property
    def patterns(self) -> _Patterns: ...


class Dependencies:
    """The dependencies of all topics at one hub: the streams that wait for them, and the hubs that receive them."""

    def __init__(self, cluster: _Cluster) -> None:
        self._cluster = cluster
        self.blocked: dict[Stream, None] = {}
        # Topics with a stream that has advanced, while the streams that wait for it are being woken.
        self._moved: dict[Topic, None] = {}
        self._is_waking = False

    # Waiting.

    def must_wait(self, stream: Stream, tags: Iterable[Dependency]) -> bool:
        """Whether messages after these positions have to wait here."""
        if all(self.is_passed(stream.topic.trunk, tag) for tag in tags):
            return False
        self.blocked[stream] = None
        return True

    def is_passed(self, trunk: Topic, tag: Dependency) -> bool:
        """Whether no subscriber here can still receive a message up to that position."""
        other = self.find(trunk, tag.stream)
        if other is None or (other.epoch, other.n) >= tag[1:]:
            return True
        stream = other.stream
        if tag.n == WHOLE and isinstance(other, Lane) and other.deaths and self._is_stuck(other):
            # The lane waits for messages behind this one: its hub went on after others had declared it dead.
            return True
        if stream is None or stream.state.is_home:
            return True
        if not (stream.is_wanted or self._cluster.subscriptions.is_claimed(trunk, tag.stream)):
            return True
        # The trunk is about to be opened here, after an end from which no subscriber here can receive more.
        ending = stream.ending
        is_fed = stream.source is None and not any(
            isinstance(arrival.part, Messages | FilteredRun) for arrival in stream.pending
        )
        return stream.state is State.OPENING and ending is not None and is_fed and ending[1:] >= tag[1:]

    def _is_stuck(self, lane: Lane) -> bool:
        """Whether the pending messages of a lane wait for another stream."""
        pending = () if lane.stream is None else lane.stream.pending
        head = next((one.part for one in pending if isinstance(one.part, Dependency)), None)
        return head is not None and (head.n == WHOLE or not self.is_passed(lane.trunk, head))

    def moved(self, topic: Topic) -> None:
        """One of a topic's streams has advanced here, or has ended: wake the streams that wait for it."""
        if not self.blocked:
            return
        self._moved[topic.trunk] = None
        if self._is_waking:
            return
        self._is_waking = True
        while self._moved:
            trunk, _ = self._moved.popitem()
            for stream in [stream for stream in self.blocked if stream.topic.trunk is trunk]:
                del self.blocked[stream]
                self._cluster.merging.wake(stream)
        self._is_waking = False
        # The end of a lane of this hub may have waited for messages held in it.
        self._cluster.lanes.settle()

    def forget(self, stream: Stream) -> None:
        self.blocked.pop(stream, None)

    def skip(self, stream: Stream) -> bool:
        """The buffer for the stream is full: skip the dependencies that it waits for; return whether there were any.

        Messages of the other streams up to the dependencies are then dropped here, so the order is kept; subscribers
        detect the loss by positions.
        """
        parts = [arrival.part for arrival in stream.pending]
        tags = [
            part
            for part in parts
            if isinstance(part, Dependency) and not self.is_passed(stream.topic.trunk, part)
        ]
        for tag in tags:
            other = self.find(stream.topic.trunk, tag.stream)
            if other is not None and other.stream is not None:
                self._cluster.merging.jump(other.stream, tag.epoch, tag.n)
        return bool(tags)

    # Announcing dependencies.

    def mark(self, topic: Topic, tags: Iterable[Dependency]) -> None:
        """The stream's next messages depend on these positions: send that to all its followers."""
        for tag in tags:
            if tag.stream == topic.lane:
                continue
            beside = topic.beside = topic.beside or TopicLanes()
            if beside.after.get(tag.stream, (0, 0)) >= tag[1:]:
                continue
            beside.after[tag.stream] = tag[1:]
            if topic.hub_filters is not None:
                # Account for the messages before the mark now: behind it they would wait for the dependency, and
                # another stream may wait for them.
                topic.hub_filters.account(topic)
            frame = encode(AfterFrame(topic.key, topic.epoch, *tag))
            links = dict(topic.relays or {})
            if not topic.lane and topic.is_home:
                links.update(dict.fromkeys(self._cluster.patterns.links(topic.name)))
            for link in links:
                link.write(frame)
            if tag.n < WHOLE:
                self._cluster.subscriptions.push(topic, _after_push(topic, tag))

    def lane_died(self, lane: Lane) -> None:
        """Clients of the dead hub continue at other hubs: messages numbered here from now on follow its whole lane.

        Other hubs may hold pending messages of the lane, and more of them than this hub has received.
        """
        if lane.epoch:
            for topic in (lane.trunk, *self._cluster.lanes.of(lane.trunk)):
                if topic is not lane and topic.is_home:
                    self.mark(topic, (Dependency(lane.lane, lane.epoch, WHOLE),))

    def marks_of(self, topic: Topic) -> list[Dependency]:
        after = {} if topic.beside is None else topic.beside.after
        return [Dependency(stream, *at) for stream, at in after.items()]

    def greet(self, topic: Topic, link: OutLink) -> None:
        """A hub begins to follow the stream, or is to number it: send it the earlier dependencies."""
        for tag in self.marks_of(topic):
            link.write(encode(AfterFrame(topic.key, topic.epoch, *tag)))

    def greet_session(self, topic: Topic, session: Session) -> None:
        for tag in self.marks_of(topic):
            if tag.n < WHOLE:
                session.push(_after_push(topic, tag))

    def tidy(self, trunk: Topic, known: Iterable[bytes]) -> None:
        """Drop dependencies on lanes that had ended at the previous call too: other hubs may learn of an end later."""
        lanes = () if trunk.beside is None else trunk.beside.lanes.values()
        for topic in (trunk, *lanes):
            if topic.beside is not None:
                over = set(topic.beside.after).difference(known)
                for stream in over & topic.beside.over:
                    del topic.beside.after[stream]
                topic.beside.over = over

    def find(self, trunk: Topic, stream: bytes) -> Topic | None:
        """One of the topic's streams at this hub; None if it has ended."""
        if not stream:
            return trunk
        return None if trunk.beside is None else trunk.beside.lanes.get(stream.decode("utf-8", "replace"))


def _after_push(topic: Topic, tag: Dependency) -> bytes:
    words = (b"eq.after", topic.name, topic.lane, tag.stream)
    return push((*map(bulk, words), integer(tag.epoch), integer(tag.n)), 3)
