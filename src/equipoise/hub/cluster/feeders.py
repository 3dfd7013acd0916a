"""Track the hubs that may hold acknowledged messages for topics of this home; send gaps when one dies.

A hub acknowledges a plain PUBLISH before the home has numbered the message, once the home has registered that hub as a
*feeder* of the topic (`Admission.vouched`). If a feeder dies, messages that it had acknowledged may be lost: the home
continues in an epoch without a known predecessor, so every subscriber receives a gap.

A home that takes over a topic does not know its feeders, so it registers every hub as one. It reports at once if the
former home is dead; or if a hub is dead that the former home had not yet reported as dead when it closed, because
neither home would report that hub otherwise.

Always true: a hub that has received a position for a message of a topic is among the topic's feeders at its home until
it dies.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from equipoise.hub.cluster.link.codec import encode
from equipoise.hub.cluster.link.frames import Life, OpenedFrame
from equipoise.hub.cluster.pattern_gaps import send_topic_gap
from equipoise.hub.cluster.ports import ClusterPort

if TYPE_CHECKING:
    from equipoise.hub.cluster.link.link import OutLink
    from equipoise.hub.data.topics import Topic

__all__ = ["Feeders"]

# Names of removed topics that are kept before a clean-up: little memory, and seldom reached.
FORGOTTEN_MAX = 1_000
# Seconds after the takeover of a topic at which a newly discovered hub cannot have fed the former home: hubs discover
# each other within a session timeout.
MEET_S = 600.0


class _Relays(Protocol):
    def count_loss(self, topic: Topic, epoch: int, n: int) -> None: ...


class _Patterns(Protocol):
    def links(self, topic: bytes) -> list[OutLink]: ...


class _Cluster(ClusterPort, Protocol):
    @property
    def merging(self) -> _Relays: ...
    @property
    def patterns(self) -> _Patterns: ...
    def announce(self, topic: Topic, epoch: int, after_epoch: int, after_n: int) -> None: ...


class Feeders:
    """Owned by the cluster."""

    def __init__(self, cluster: _Cluster) -> None:
        self._cluster = cluster
        # By hub, the keys of topics and lanes numbered here that it feeds; may include removed topics.
        self.topics: dict[str, set[bytes]] = {}
        # By key, the time at which the topic was taken over: those of the last MEET_S, and a few older ones.
        self._taken: dict[bytes, float] = {}
        # By hub, the incarnations that have ended since the hub is known, and that it has not reported as dead.
        self._unsaid: dict[str, dict[Life, None]] = {}

    # Registering feeders.

    def note(self, key: bytes, hub: str) -> None:
        """The hub may send messages of the topic or lane: register it as a feeder."""
        fed, index = self.topics.setdefault(hub, set()), self._cluster.core.index
        fed.add(key)
        if len(fed) > 2 * (len(index.topics) + len(index.lanes)) + FORGOTTEN_MAX:
            fed.intersection_update((*index.topics, *index.lanes))

    def met(self, hub: str) -> None:
        """Another hub was discovered. It may have fed topics at homes that discovered it before this hub did."""
        self._unsaid[hub] = {}
        now = self._cluster.core.now()
        self._taken = {key: at for key, at in self._taken.items() if now - at < MEET_S}
        for key in self._taken:
            self.note(key, hub)

    def taken_over(self, topic: Topic, former: str) -> None:
        """A topic was opened here behind the end that the former home has sent."""
        for hub in self._cluster.out:
            self.note(topic.key, hub)
        self._taken[topic.key] = self._cluster.core.now()
        if former not in self._cluster.out or self._unsaid.get(former):
            self.tear(topic)

    # When hubs die.

    def hub_died(self, peer: str, life: Life) -> None:
        """The peer reports that an incarnation has ended: from now on it sends the gaps of its topics itself."""
        self._unsaid.get(peer, {}).pop(life, None)

    def ended(self, life: Life) -> None:
        """This hub learns that an incarnation has ended; no other hub has reported it yet."""
        for lives in self._unsaid.values():
            lives[life] = None
        name, incarnation = life
        link = self._cluster.out.get(name)
        if link is None or link.incarnation != incarnation:
            # This hub never knew that incarnation, but former homes may have: treat it as discovered and dead at once.
            self._tear_taken()

    def _tear_taken(self) -> None:
        index = self._cluster.core.index
        for key in sorted(self._taken):
            topic = index.topics.get(key) or index.lanes.get(key)
            if topic is not None and topic.is_home:
                self.tear(topic)

    def died(self, hub: str, *, has_left: bool) -> None:
        """Send a gap to subscribers of the topics that the hub fed, unless it left in an orderly way."""
        self._unsaid.pop(hub, None)
        topics = self._fed_by(hub)
        for topic in () if has_left else topics:
            if topic.is_home:
                # Subscribers by pattern here have just received the gap of the dead hub.
                self.tear(topic, is_told=True)

    def _fed_by(self, hub: str) -> list[Topic]:
        """The topics of which the dead hub may have accepted messages and not forwarded them, ordered by key."""
        fed = self.topics.pop(hub, set())
        index = self._cluster.core.index
        found = [index.topics.get(key) or index.lanes.get(key) for key in sorted(fed)]
        return [topic for topic in found if topic is not None]

    def tear(self, topic: Topic, *, is_told: bool = False) -> int:
        """Continue in an epoch without a known predecessor, so that subscribers receive a gap with the next message.

        Returns the previous epoch if subscribers are notified of the next one at once; else 0.
        """
        before = topic.epoch
        if topic.log is not None:
            # Acknowledged messages are in the log.
            return 0
        cluster, epoch = self._cluster, self._cluster.core.new_epoch(before)
        cluster.merging.count_loss(topic, epoch, 0)
        if not is_told:
            send_topic_gap(cluster.core, topic)
        if not topic.lane:
            cluster.announce(topic, epoch, 0, 0)
        topic.jump(epoch, 0)
        if topic.lane:
            # A lane has no OPENED: its followers detect the new epoch by the position of the next message.
            return 0
        if topic.beside is not None:
            topic.beside.opened = (topic.epoch, 0, 0)
        frame = encode(OpenedFrame(topic.name, topic.epoch, cluster.name, 0, 0))
        for link in {
            **dict.fromkeys(topic.relays or ()),
            **dict.fromkeys(cluster.patterns.links(topic.name)),
        }:
            link.write(frame)
        return before
