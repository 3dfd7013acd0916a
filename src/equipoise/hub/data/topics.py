"""Topics, patterns, who subscribes to them, and each topic's stream of positions.

A topic exists when first used. It numbers its messages from 1 within an epoch; when an idle topic is forgotten and
used again it starts a new epoch, so that a position never means two messages. `TopicIndex` is the only one to
create and forget topics and patterns, and to change who is a member of them.

Always true:
    epochs given out grow, also across restarts of the hub, as long as the wall clock does;
    a topic with members is never forgotten;
    an audience whose version is the index's is compiled from exactly the present members and patterns.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from equipoise.hub.data.kinds import Kind
from equipoise.hub.data.patterns import Pattern, Patterns
from equipoise.model import Glob

if TYPE_CHECKING:
    from equipoise.hub.cluster.lane_state import Beside, Lane
    from equipoise.hub.cluster.link.link import OutLink
    from equipoise.hub.cluster.streams import Stream
    from equipoise.hub.data.audience import Audience
    from equipoise.hub.data.ports import CallLater, Timer
    from equipoise.hub.data.session import Session
    from equipoise.hub.locations.topic_locations import Whereabouts
    from equipoise.hub.telemetry.meter import TopicMeter

# Names that begin so are those of lanes among hubs: no client may make such a topic.
LANE_PREFIX = b"$lane/"
# Topics added up in one go, and topics looked at by the sweep in one go: some 0.2 ms each.
STEP = 1_000
GC_SLICE = 1_000


class Topic:
    """One topic's stream, members and meters. The hot path reads and writes the attributes directly."""

    __slots__ = (
        "audience",
        "beside",
        "bytes_in",
        "bytes_out",
        "cuts",
        "delivered",
        "drops",
        "epoch",
        "is_queued",
        "is_shard",
        "is_watched",
        "members",
        "meter",
        "n",
        "name",
        "news",
        "published",
        "publisher",
        "relays",
        "seen_n",
        "stream",
        "where",
    )

    def __init__(self, name: bytes, epoch: int, *, is_shard: bool) -> None:
        self.name = name
        self.is_shard = is_shard
        self.epoch = epoch
        # Position of the last message; 0 before the first.
        self.n = 0
        # Subscribers by name, in order of subscription, each with the kinds it subscribed by.
        self.members: dict[Session, tuple[Kind, ...]] = {}
        self.audience: Audience | None = None
        # Messages that got their positions here, and bytes of their payloads; messages written to subscribers, and
        # those bytes.
        self.published = 0
        self.bytes_in = 0
        self.delivered = 0
        self.bytes_out = 0
        # Subscribers cut for being too slow while messages of this topic waited for them, and those messages.
        self.cuts = 0
        self.drops = 0
        # Links to hubs that follow the stream, and what there is to know of it beside that it is open here.
        self.relays: dict[OutLink, None] | None = None
        self.stream: Stream | None = None
        # How much it has been told of what became of other hubs.
        self.news = 0
        # Its lanes and all that comes with them; None for most.
        self.beside: Beside | None = None
        # Whether it is among those that nobody subscribes to, and n when it was last looked at there: an equal n on
        # the next visit means an idle topic.
        self.is_queued = False
        self.seen_n = -1
        # For telemetry: what this window began with, while there is anything to record; who published last in it;
        # whether every arrival is recorded.
        self.meter: TopicMeter | None = None
        self.publisher: int | None = None
        self.is_watched = False
        # Where its clients are; None as long as nobody has asked.
        self.where: Whereabouts | None = None

    @property
    def is_engaged(self) -> bool:
        """Whether other hubs listen, or something is under way with them."""
        has_lanes = self.beside is not None and bool(self.beside.lanes)
        return has_lanes or bool(self.relays) or (self.stream is not None and not self.stream.is_idle)

    @property
    def is_home(self) -> bool:
        """Whether messages get their positions here."""
        return self.stream is None or self.stream.state.is_home

    @property
    def trunk(self) -> Topic:
        """The topic itself; of a lane, the topic that it is a lane of."""
        return self

    @property
    def key(self) -> bytes:
        """How hubs name the stream among themselves."""
        return self.name

    @property
    def lane(self) -> bytes:
        """How clients tell the stream from others of the topic: the lane's hub, nothing for the trunk."""
        return b""

    @property
    def is_heard(self) -> bool:
        """Whether anybody subscribes by name and does not get this stream elsewhere."""
        absent = None if self.beside is None else self.beside.absent
        if not absent:
            return bool(self.members)
        return any(session not in absent or kinds != (Kind.OWN,) for session, kinds in self.members.items())

    def renew(self) -> None:
        """Who subscribes to the topic has changed: its audience, and those of its lanes, are compiled anew."""
        self.audience = None
        if self.beside is not None:
            for lane in self.beside.lanes.values():
                lane.audience = None


class Totals(NamedTuple):
    """Messages published, messages delivered, bytes delivered."""

    published: int = 0
    delivered: int = 0
    bytes_out: int = 0


class TopicIndex:
    """All topics and patterns of a hub."""

    def __init__(
        self, topics_max: int, new_epoch: Callable[[], int], *, payload_bytes_max: int = 1 << 20
    ) -> None:
        self.topics: dict[bytes, Topic] = {}
        self.shards: dict[bytes, Topic] = {}
        # By key.
        self.lanes: dict[bytes, Lane] = {}
        self.patterns = Patterns()
        # Topics with subscribers by name.
        self.heard = 0
        # Topics without subscribers by name, those that were looked at longest ago first; and perhaps some that have
        # found one since.
        self._unheard: deque[Topic] = deque()
        # How many of them the sweep has yet to look at.
        self._sweep_left = 0
        # Patterns of other hubs' clients.
        self.relayed = Patterns()
        # What one frame to another hub may hold of payloads.
        self.payload_bytes_max = payload_bytes_max
        self._topics_max = topics_max
        self._new_epoch = new_epoch
        # Counts changes of patterns and their members: an audience compiled under another version is stale.
        # Looking for the topics that a pattern matches would stall the loop when there are many.
        self.version = 0
        self.forgotten = 0
        # Sums over forgotten topics, so that totals never fall.
        self._former = Totals()

    def totals(self) -> Iterator[Totals]:
        """Sums over all topics, past and present, as far as they have been added up: the last one is complete.

        Counting when asked keeps the hot path free of it; whoever asks takes the next step in a turn of its own.
        """
        published, delivered, bytes_out = self._former
        for i, topic in enumerate((*self.topics.values(), *self.shards.values(), *self.lanes.values())):
            published += topic.published
            delivered += topic.delivered
            bytes_out += topic.bytes_out
            if not i % STEP:
                yield Totals(published, delivered, bytes_out)
        yield Totals(published, delivered, bytes_out)

    def find(self, name: bytes, *, is_shard: bool = False) -> Topic | None:
        return (self.shards if is_shard else self.topics).get(name)

    def create(self, name: bytes, *, is_shard: bool = False) -> Topic | None:
        """A new topic; None when the hub is full of topics that are in use."""
        if len(self.topics) + len(self.shards) >= self._topics_max and not self._make_room():
            return None
        topic = Topic(name, self._new_epoch(), is_shard=is_shard)
        if is_shard:
            self.shards[name] = topic
        else:
            self.topics[name] = topic
            self._enqueue(topic)
        return topic

    def add_member(self, topic: Topic, session: Session, kind: Kind) -> None:
        if topic.is_queued and self._unheard[-1] is topic:
            # It was made to be subscribed to, like most: the queue is for the others.
            self._unheard.pop()
            topic.is_queued = False
        self.heard += not topic.members and not topic.is_shard
        topic.members[session] = _with(topic.members.get(session, ()), kind)
        topic.renew()

    def remove_member(self, topic: Topic, session: Session, kind: Kind) -> None:
        """A shard channel nobody subscribes to is forgotten at once: it carries no positions to be missed."""
        _drop(topic.members, session, kind)
        if kind is Kind.OWN and topic.beside is not None:
            for stream in (topic, *topic.beside.lanes.values()):
                if stream.beside is not None:
                    stream.beside.absent.discard(session)
        topic.renew()
        if topic.members:
            return
        if topic.is_shard:
            self._forget(topic)
        else:
            self.heard -= 1
            self._enqueue(topic)

    def add_pattern_member(self, glob: Glob, session: Session, kind: Kind) -> Pattern:
        pattern = self.patterns.get(glob.pattern) or self.patterns.add(glob)
        pattern.members[session] = _with(pattern.members.get(session, ()), kind)
        self.version += 1
        return pattern

    def add_relay(self, topic: Topic, link: OutLink) -> None:
        if topic.relays is None:
            topic.relays = {}
        topic.relays[link] = None
        topic.audience = None

    def remove_relay(self, topic: Topic, link: OutLink) -> None:
        if topic.relays is not None:
            topic.relays.pop(link, None)
            topic.relays = topic.relays or None
        topic.audience = None

    def add_pattern_relay(self, pattern: bytes, link: OutLink) -> None:
        found = self.relayed.get(pattern) or self.relayed.add(Glob(pattern))
        found.relays[link] = None
        self.version += 1

    def remove_pattern_relay(self, pattern: bytes, link: OutLink) -> None:
        found = self.relayed.get(pattern)
        if found is not None:
            found.relays.pop(link, None)
            if not found.relays:
                self.relayed.remove(found)
            self.version += 1

    def remove_pattern_relays(self, link: OutLink) -> None:
        for pattern in [pattern for pattern in self.relayed if link in pattern.relays]:
            self.remove_pattern_relay(pattern.glob.pattern, link)

    def remove_pattern_member(self, pattern: Pattern, session: Session, kind: Kind) -> None:
        _drop(pattern.members, session, kind)
        if not pattern.members:
            self.patterns.remove(pattern)
        self.version += 1

    def sweep(self, count: int) -> bool:
        """Look at up to `count` topics that nobody subscribes to, and forget the idle ones; whether some are left.

        A topic goes on the second visit that finds it without a subscriber and without a new message.
        """
        if not self._sweep_left:
            self._sweep_left = len(self._unheard)
        for _ in range(min(count, self._sweep_left)):
            self._sweep_left -= 1
            self._visit()
        return self._sweep_left > 0

    def _make_room(self) -> bool:
        """Forget topics that nobody subscribes to, the longest unused first; whether there was one."""
        before = self.forgotten
        room = max(1, self._topics_max // 100)
        for _ in range(2 * room):
            if not self._unheard or self.forgotten - before == room:
                break
            self._visit()
        for _ in range(len(self._unheard)):
            if self.forgotten > before:
                break
            # All are in use. Publishing goes on under a new epoch; refusing a new topic would be worse.
            self._visit(is_spared=False)
        self._sweep_left = min(self._sweep_left, len(self._unheard))
        return self.forgotten > before

    def _enqueue(self, topic: Topic) -> None:
        """The topic has no subscriber now. It has not been seen so before, whatever was seen earlier."""
        topic.seen_n = -1
        if not topic.is_queued:
            topic.is_queued = True
            self._unheard.append(topic)

    def _visit(self, *, is_spared: bool = True) -> None:
        """Look at the next topic in the queue: forget it, or put it at the end if it was used since."""
        topic = self._unheard.popleft()
        if topic.members:
            topic.is_queued = False
        elif topic.is_engaged or (is_spared and topic.n != topic.seen_n):
            topic.seen_n = topic.n
            self._unheard.append(topic)
        else:
            topic.is_queued = False
            self._forget(topic)

    def _forget(self, topic: Topic) -> None:
        del (self.shards if topic.is_shard else self.topics)[topic.name]
        self.forgotten += 1
        published, delivered, bytes_out = self._former
        self._former = Totals(
            published + topic.published, delivered + topic.delivered, bytes_out + topic.bytes_out
        )


class TopicGc:
    """Owned by HubCore: forget idle topics, once every `idle_s` while there are topics, a slice at a time."""

    def __init__(self, index: Callable[[], TopicIndex], call_later: CallLater, idle_s: float) -> None:
        self._index = index
        self._call_later = call_later
        self._idle_s = idle_s
        self._timer: Timer | None = None

    def begin(self) -> None:
        """There is a topic to look after."""
        if self._timer is None:
            self._timer = self._call_later(self._idle_s, self._sweep)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _sweep(self) -> None:
        self._timer = None
        if self._index().sweep(GC_SLICE):
            self._timer = self._call_later(0, self._sweep)
        elif self._index().topics:
            self.begin()


def _with(kinds: tuple[Kind, ...], kind: Kind) -> tuple[Kind, ...]:
    return kinds if kind in kinds else (*kinds, kind)


def _drop(members: dict[Session, tuple[Kind, ...]], session: Session, kind: Kind) -> None:
    left = tuple(other for other in members[session] if other is not kind)
    if left:
        members[session] = left
    else:
        del members[session]
