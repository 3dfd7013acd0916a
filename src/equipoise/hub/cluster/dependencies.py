"""Order between the streams of one topic: positions of one stream that must follow positions of another.

A publisher, that is a hub for its clients or a smart client, that goes from one stream of a topic to another sends
along the positions that it has reached in those before: dependencies. The hub that numbers the new stream puts them
into it, in their place, and every hub with subscribers of both streams holds what follows a dependency until it has
passed the position that the dependency names. The hub that numbers waits itself, before it gives the message a
position, so that nothing of its own has to be held back from its subscribers.

Waiting never goes in a circle: a dependency names only positions that were given before it was; one on the whole of a
dead hub's lane, which a hub that was declared dead too early may number on, gives way. Waiting ends, too, when the
other stream has ended here or its hub is dead.

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


# The position of a dependency on all that there is of a lane in the epoch: its hub is dead.
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
    def listening(self) -> _Subscriptions: ...
    @property
    def merging(self) -> _Relays: ...
    @property
    def patterns(self) -> _Patterns: ...


class Dependencies:
    """Those of all topics at one hub: what waits for them, and the hubs that receive them."""

    def __init__(self, cluster: _Cluster) -> None:
        self._cluster = cluster
        self.blocked: dict[Stream, None] = {}
        # Topics with a stream that has come further, while streams that wait for that are being woken.
        self._moved: dict[Topic, None] = {}
        self._is_waking = False

    # Waiting.

    def must_wait(self, stream: Stream, tags: Iterable[Dependency]) -> bool:
        """Whether what comes after these positions has to wait here."""
        if all(self.is_passed(stream.topic.trunk, tag) for tag in tags):
            return False
        self.blocked[stream] = None
        return True

    def is_passed(self, trunk: Topic, tag: Dependency) -> bool:
        """Whether no subscriber here can get anything up to that position any more."""
        other = self.find(trunk, tag.stream)
        if other is None or (other.epoch, other.n) >= tag[1:]:
            return True
        stream = other.stream
        if tag.n == WHOLE and isinstance(other, Lane) and other.deaths and self._is_stuck(other):
            # The lane waits for what comes behind this: its hub went on after others had declared it dead.
            return True
        if stream is None or stream.state.is_home:
            return True
        if not (stream.is_wanted or self._cluster.listening.is_claimed(trunk, tag.stream)):
            return True
        # The trunk is about to be opened here, after an end that no subscriber here could see.
        ending = stream.ending
        is_fed = stream.source is None and not any(
            isinstance(arrival.part, Messages | FilteredRun) for arrival in stream.pending
        )
        return stream.state is State.OPENING and ending is not None and is_fed and ending[1:] >= tag[1:]

    def _is_stuck(self, lane: Lane) -> bool:
        """Whether what waits of a lane waits for another stream."""
        pending = () if lane.stream is None else lane.stream.pending
        head = next((one.part for one in pending if isinstance(one.part, Dependency)), None)
        return head is not None and (head.n == WHOLE or not self.is_passed(lane.trunk, head))

    def moved(self, topic: Topic) -> None:
        """One of a topic's streams has come further here, or has ended: streams that wait for that go on."""
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
        # A lane of ours may have waited with its end for what was held in it.
        self._cluster.lanes.settle()

    def forget(self, stream: Stream) -> None:
        self.blocked.pop(stream, None)

    def skip(self, stream: Stream) -> bool:
        """There is no more room for what waits in the stream: whether that was for a dependency, which is passed now.

        What the other stream still brings of what comes before is left out here, so the order stays; subscribers learn
        of it by the positions.
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

    # Telling of them.

    def mark(self, topic: Topic, tags: Iterable[Dependency]) -> None:
        """What the stream brings from here on comes after these: tell all that get it."""
        for tag in tags:
            if tag.stream == topic.lane:
                continue
            beside = topic.beside = topic.beside or TopicLanes()
            if beside.after.get(tag.stream, (0, 0)) >= tag[1:]:
                continue
            beside.after[tag.stream] = tag[1:]
            if topic.hub_filters is not None:
                # Behind the mark this would wait for it, and another stream may wait for this.
                topic.hub_filters.account(topic)
            frame = encode(AfterFrame(topic.key, topic.epoch, *tag))
            links = dict(topic.relays or {})
            if not topic.lane and topic.is_home:
                links.update(dict.fromkeys(self._cluster.patterns.links(topic.name)))
            for link in links:
                link.write(frame)
            if tag.n < WHOLE:
                self._cluster.listening.push(topic, _after_push(topic, tag))

    def lane_died(self, lane: Lane) -> None:
        """Clients of the dead hub go on at others: what is numbered here from now on comes after all of its lane.

        Other hubs may have messages of the lane that still wait there, and more than have come here.
        """
        if lane.epoch:
            for topic in (lane.trunk, *self._cluster.lanes.of(lane.trunk)):
                if topic is not lane and topic.is_home:
                    self.mark(topic, (Dependency(lane.lane, lane.epoch, WHOLE),))

    def marks_of(self, topic: Topic) -> list[Dependency]:
        after = {} if topic.beside is None else topic.beside.after
        return [Dependency(stream, *at) for stream, at in after.items()]

    def greet(self, topic: Topic, link: OutLink) -> None:
        """A hub begins to follow the stream, or is to number it: it has not received the dependencies of before."""
        for tag in self.marks_of(topic):
            link.write(encode(AfterFrame(topic.key, topic.epoch, *tag)))

    def greet_session(self, topic: Topic, session: Session) -> None:
        for tag in self.marks_of(topic):
            if tag.n < WHOLE:
                session.push(_after_push(topic, tag))

    def tidy(self, trunk: Topic, known: Iterable[bytes]) -> None:
        """Forget dependencies on lanes that are over, and were so the last time: other hubs may learn of that later."""
        lanes = () if trunk.beside is None else trunk.beside.lanes.values()
        for topic in (trunk, *lanes):
            if topic.beside is not None:
                over = set(topic.beside.after).difference(known)
                for stream in over & topic.beside.over:
                    del topic.beside.after[stream]
                topic.beside.over = over

    def find(self, trunk: Topic, stream: bytes) -> Topic | None:
        """One of the topic's streams as it is here; None if it is over."""
        if not stream:
            return trunk
        return None if trunk.beside is None else trunk.beside.lanes.get(stream.decode("utf-8", "replace"))


def _after_push(topic: Topic, tag: Dependency) -> bytes:
    words = (b"eq.after", topic.name, topic.lane, tag.stream)
    return push((*map(bulk, words), integer(tag.epoch), integer(tag.n)), 3)
