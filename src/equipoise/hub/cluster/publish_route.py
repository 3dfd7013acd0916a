"""Which of a topic's streams the messages of this hub's own clients go to, and how that changes.

In mode `all-subscribers` a hub keeps to one stream: the one it numbers itself if it is a home, else one that is drawn
by its own name, so that publishers are spread over the homes and stay where they are while others come and go. A lane
is used from when its hub has said that it is open; until then the trunk is.

A hub that changes to another stream first waits for the words that it is owed: they name the position of the last
message in the old one. The first message in the new one carries that position as a tag, and with it those of the
streams used before, lest a hub that dies takes the order with it.

Always true: no message of this hub's clients is in two streams' hands at once; what comes meanwhile waits, in order.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from xxhash import xxh3_64_intdigest

from equipoise.hub.cluster.lane_state import Lane
from equipoise.hub.cluster.link.frames import Tag
from equipoise.hub.cluster.streams import Held, Stream
from equipoise.model import Mode
from equipoise.stream.position import TRUNK

if TYPE_CHECKING:
    from equipoise.hub.cluster.cluster import Cluster
    from equipoise.hub.data.topics import Topic

__all__ = ["Way", "Ways"]

# Streams whose positions are sent along with a change: the latest of them are all that can matter.
TAGS_MAX = 8


class Way:
    """Part of one trunk's Stream."""

    __slots__ = ("held", "is_due", "now", "tags", "target")

    def __init__(self) -> None:
        # The stream that messages went to last, and the one that they are to go to.
        self.now = TRUNK
        self.target = TRUNK
        # What the next message comes after, by stream, the latest last; and whether it has to say so.
        self.tags: dict[bytes, tuple[int, int]] = {}
        self.is_due = False
        # What waits for the change.
        self.held: deque[Held] = deque()

    @property
    def is_plain(self) -> bool:
        """Whether messages go to the trunk as if there were nothing else."""
        return not (self.now or self.target or self.held or self.is_due)


class Ways:
    """Part of one cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def submit(self, stream: Stream, way: Way, item: Held) -> bool:
        """Take messages of clients; False if there is no room for them."""
        if way.now == way.target and not way.held:
            return self._send(stream, way, item)
        if not self._cluster.ingress.reserve(item.size):
            return False
        way.held.append(item)
        return True

    def retarget(self, topic: Topic) -> None:
        """The plan has changed, or which lanes are open."""
        target = self._target(topic)
        stream = topic.stream
        way = None if stream is None else stream.way
        if way is None and target == TRUNK:
            return
        if stream is None:
            stream = self._cluster.handover.new_stream(topic)
        if way is None:
            way = stream.way = Way()
        way.target = target
        self._cluster.handover.progressed(stream)

    def progressed(self, trunk: Topic) -> None:
        """Words have come, or the topic's state here has changed: perhaps the change can be made."""
        stream = trunk.stream
        way = None if stream is None else stream.way
        if stream is None or way is None:
            return
        if way.now != way.target and self._is_settled(trunk, way.now):
            self._note(trunk, way)
            way.now, way.is_due = way.target, bool(way.tags)
        while way.held and way.now == way.target:
            item = way.held.popleft()
            self._cluster.ingress.release(item.size)
            self._send(stream, way, item)

    def lane_gone(self, lane: Lane) -> None:
        """What waited for the lane's hub, and has certainly not been seen by it, goes elsewhere, and first."""
        stream = lane.trunk.stream
        way = None if stream is None else stream.way
        held = None if lane.stream is None else lane.stream.held.pop((), None)
        if stream is None or way is None or way.now != lane.lane:
            return
        way.held.extendleft(reversed(held or ()))
        way.target = self._target(lane.trunk)
        way.now = way.target
        way.is_due = bool(way.tags)
        self.progressed(lane.trunk)

    def unsure(self, topic: Topic) -> None:
        """The hub that numbered the stream has died, perhaps with the marks that it was given: give them again."""
        stream = topic.trunk.stream
        way = None if stream is None else stream.way
        if way is not None and way.now == topic.lane:
            way.is_due = bool(way.tags)

    def keep_to(self, trunk: Topic, stream: bytes) -> bool:
        """Whether the messages of our clients go to this stream, so that they come after all that it has."""
        way = None if trunk.stream is None else trunk.stream.way
        return stream == TRUNK if way is None else way.now == way.target == stream and not way.held

    def position(self, trunk: Topic) -> Tag:
        """How far the messages of our clients have come, in the stream that they go to."""
        way = None if trunk.stream is None else trunk.stream.way
        found = None if way is None else self._find(trunk, way.now)
        if found is None:
            found = trunk
        return Tag(found.lane, *self._reached(found))

    def tags_of(self, trunk: Topic) -> tuple[Tag, ...]:
        """What the messages of our clients come after, as far as they have changed streams."""
        way = None if trunk.stream is None else trunk.stream.way
        return () if way is None else tuple(Tag(name, *at) for name, at in way.tags.items())

    # Inside.

    def _send(self, stream: Stream, way: Way, item: Held) -> bool:
        if way.is_due:
            way.is_due = False
            item = item._replace(tags=(*item.tags, *self.tags_of(stream.topic)))
        return self._cluster.ingress.give(self._find(stream.topic, way.now) or stream.topic, item)

    def _target(self, topic: Topic) -> bytes:
        cluster = self._cluster
        placement = cluster.router.placement(topic.name)
        homes = placement.homes
        if placement.mode is not Mode.ALL_SUBSCRIBERS or homes[0] == cluster.name:
            return TRUNK
        home = cluster.name if cluster.name in homes else max(homes, key=lambda hub: self._lot(topic, hub))
        return home.encode() if cluster.lanes.is_open(topic, home) else TRUNK

    def _lot(self, topic: Topic, home: str) -> tuple[int, str]:
        """What this hub draws for a home: the greatest wins, so a home that comes or goes moves few publishers."""
        return xxh3_64_intdigest(b"%b %b " % (self._cluster.name.encode(), home.encode()) + topic.name), home

    def _find(self, trunk: Topic, name: bytes) -> Topic | None:
        if name == TRUNK:
            return trunk
        return None if trunk.beside is None else trunk.beside.lanes.get(name.decode())

    def _is_settled(self, trunk: Topic, name: bytes) -> bool:
        """Whether all messages of our clients in a stream have their positions, or never will."""
        found = self._find(trunk, name)
        stream = None if found is None else found.stream
        if stream is None:
            return True
        is_owed = any(not path for owed in stream.owed.values() for path, _ in owed)
        is_doubtful = any(not path for _, path in stream.doubts)
        return () not in stream.held and not is_owed and not is_doubtful

    def _note(self, trunk: Topic, way: Way) -> None:
        """Keep the position that we have reached in the stream that we leave."""
        found = self._find(trunk, way.now)
        if found is None:
            return
        at = self._reached(found)
        is_here = found.is_home
        for tag in self._cluster.tags.marks_of(found) if is_here else ():
            way.tags[tag.stream] = max(tag[1:], way.tags.get(tag.stream, (0, 0)))
        way.tags.pop(way.now, None)
        if at[0]:
            way.tags[way.now] = at
        while len(way.tags) > TAGS_MAX:
            del way.tags[next(iter(way.tags))]

    def _reached(self, topic: Topic) -> tuple[int, int]:
        """The position of the last message of our clients in a stream: one that it has if it is numbered here."""
        stream = topic.stream
        if stream is None or stream.state.is_home:
            return topic.epoch, topic.n
        return stream.numbered_at
