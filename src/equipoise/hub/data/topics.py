"""The index of topics, patterns and their subscribers.

A topic is created when first used. Its messages are numbered from 1 within an epoch; a topic that was removed and is
used again starts a new epoch, so that a position never identifies two messages. Only `TopicIndex` creates and removes
topics and patterns, and changes their members.

Always true:
    epochs increase, also across restarts of the hub, as long as the wall clock does;
    a topic with members is never removed;
    an audience with the version of the index is compiled from exactly the current members and patterns;
    a change of a pattern costs topics that it does not match no more than the comparison of the name.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from equipoise.hub.access.quotas import Quotas, Resource, owner_of, topic_bytes
from equipoise.hub.data.kinds import Kind
from equipoise.hub.data.patterns import Pattern, PatternLog, Patterns
from equipoise.hub.data.region_counts import PATTERN, SHARD, TOPIC, Key, RegionCounts
from equipoise.hub.data.topic import LANE_PREFIX, Topic
from equipoise.hub.data.turns import LongWork, Turns
from equipoise.model import Glob

if TYPE_CHECKING:
    from equipoise.hub.cluster.lane_state import Lane
    from equipoise.hub.cluster.link.link import OutLink
    from equipoise.hub.content.topic_filters import TopicFilters
    from equipoise.hub.data.ports import Timer
    from equipoise.hub.data.subscriber import Subscriber

__all__ = ["LANE_PREFIX", "Topic", "TopicGc", "TopicIndex", "Totals"]

# Tuples of one kind, shared by the members: nearly every member subscribes by one kind.
_ALONE = {kind: (kind,) for kind in Kind}

# Topics summed in one step, and topics visited by the sweep in one step: about 0.2 ms each.
STEP = 1_000
GC_SLICE = 1_000


class Totals(NamedTuple):
    # Messages published, messages delivered, bytes delivered.
    published: int = 0
    delivered: int = 0
    bytes_out: int = 0


class TopicIndex:
    """All topics and patterns of a hub."""

    def __init__(
        self,
        topics_max: int,
        new_epoch: Callable[[], int],
        quotas: Quotas,
        *,
        payload_bytes_max: int = 1 << 20,
    ) -> None:
        self.topics: dict[bytes, Topic] = {}
        self.shards: dict[bytes, Topic] = {}
        # Lanes by `Topic.key`.
        self.lanes: dict[bytes, Lane] = {}
        self.patterns = Patterns()
        # Number of topics with subscribers by name or by filter.
        self.heard = 0
        # Topics without subscribers, those visited longest ago first. May hold topics that have got a subscriber since.
        self._unheard: deque[Topic] = deque()
        # Number of topics that the current sweep has not visited yet.
        self._sweep_left = 0
        # Patterns of other hubs' clients.
        self.relayed = Patterns()
        # Most payload bytes in one frame to another hub.
        self.payload_bytes_max = payload_bytes_max
        self.topics_max = topics_max
        self._new_epoch = new_epoch
        self._quotas = quotas
        # Counts changes of patterns and their members. An audience of an older version is stale if a pattern changed
        # since matches its topic. That is checked at the topic's next message, because there may be many topics.
        self.version = 0
        self._log = PatternLog()
        # Subscriber counts of the other hubs, and the changes of this hub's counts to send to them.
        self.counts = RegionCounts()
        # Topics created since the start, and topics and shard channels removed.
        self.created = 0
        self.forgotten = 0
        # Sums over removed topics, so that totals never decrease.
        self._former = Totals()

    def totals(self) -> Iterator[Totals]:
        """Sums over all topics, existing and removed: partial sums between steps; the last value is complete."""
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

    def create(self, name: bytes, owner: str = "") -> Topic | None:
        """A new topic; None if the hub has no room because all topics are in use."""
        topic = self._new_topic(name, owner, is_shard=False)
        if topic is not None:
            self.topics[name] = topic
            self._enqueue(topic)
        return topic

    def create_shard(self, name: bytes, owner: str = "") -> Topic | None:
        topic = self._new_topic(name, owner, is_shard=True)
        if topic is not None:
            self.shards[name] = topic
        return topic

    def _new_topic(self, name: bytes, owner: str, *, is_shard: bool) -> Topic | None:
        size = topic_bytes(name)
        if not self._has_room(size) and not self.make_room(size):
            return None
        self._quotas.take(Resource.TOPIC_BYTES, owner, size)
        self.created += not is_shard
        number = 0 if is_shard else self.created
        return Topic(name, self._new_epoch(), is_shard=is_shard, owner=owner, number=number)

    def add_member(self, topic: Topic, session: Subscriber, kind: Kind) -> None:
        if topic.is_queued and self._unheard[-1] is topic:
            # Most topics are created by their first subscriber: take the topic off the queue again at once.
            self._unheard.pop()
            topic.is_queued = False
        self.heard += not topic.has_subscribers and not topic.is_shard
        topic.members[session] = _with(topic.members.get(session, ()), kind)
        topic.renew()
        self.counts.note(SHARD if topic.is_shard else TOPIC, topic.name)

    def remove_member(self, topic: Topic, session: Subscriber, kind: Kind) -> None:
        """Remove a subscriber. A shard channel without subscribers is removed at once: it has no positions to keep."""
        _drop(topic.members, session, kind)
        if kind is Kind.OWN and topic.beside is not None:
            for stream in (topic, *topic.beside.lanes.values()):
                if stream.beside is not None:
                    stream.beside.absent.discard(session)
        topic.renew()
        self.counts.note(SHARD if topic.is_shard else TOPIC, topic.name)
        if topic.has_subscribers:
            return
        if topic.is_shard:
            self._forget(topic)
        else:
            self.heard -= 1
            self._enqueue(topic)

    def set_content(self, topic: Topic, content: TopicFilters | None) -> None:
        """The first filter of the topic was added, or the last one removed."""
        self.heard -= topic.has_subscribers
        topic.content = content
        topic.renew()
        self.heard += topic.has_subscribers
        if not topic.has_subscribers:
            self._enqueue(topic)

    def add_pattern_member(self, glob: Glob, session: Subscriber, kind: Kind) -> Pattern:
        pattern = self.patterns.get(glob.pattern)
        if pattern is None:
            pattern = self.patterns.add(glob, owner_of(session.user))
            self._quotas.take(Resource.PATTERNS, pattern.owner)
        pattern.members[session] = _with(pattern.members.get(session, ()), kind)
        self.counts.note(PATTERN, glob.pattern)
        self.note_change(glob)
        return pattern

    def note_change(self, glob: Glob) -> None:
        """Subscribers of the pattern, or their forms, have changed: audiences of topics that it matches are stale."""
        self.version += 1
        self._log.note(glob, self.version)

    def match(self, topic: Topic) -> None:
        """Bring `patterns` and `pattern_relays` of the topic up to date."""
        name = topic.name
        changes = self._log.since(topic.patterns_at) if topic.patterns_at >= 0 else None
        if changes is None:
            topic.patterns = tuple(self.patterns.matching(name))
            topic.pattern_relays = tuple(self.relayed.matching(name))
        elif globs := [glob for glob in changes if glob.matches(name)]:
            topic.patterns = self.patterns.changed(topic.patterns, globs)
            topic.pattern_relays = self.relayed.changed(topic.pattern_relays, globs)
        topic.patterns_at = self.version

    def is_concerned(self, topic: Topic, version: int) -> bool:
        """Whether a pattern that changed after the version matches the topic; True if the changes were evicted."""
        if topic.is_shard or version == self.version:
            return False
        changes = self._log.since(version)
        return changes is None or any(glob.matches(topic.name) for glob in changes)

    # --- subscribers of the whole region

    def own_count(self, key: Key) -> int:
        """The number of this hub's clients that subscribe to a name."""
        kind, name = key
        if kind == PATTERN:
            found = self.patterns.get(name)
            return 0 if found is None else len(found.members)
        topic = self.find(name, is_shard=kind == SHARD)
        return 0 if topic is None else len(topic.members)

    def counted(self) -> Iterator[Key]:
        """The names that clients of this hub subscribe to."""
        yield from [(TOPIC, topic.name) for topic in self.topics.values() if topic.members]
        yield from [(SHARD, name) for name in self.shards]
        yield from [(PATTERN, pattern.glob.pattern) for pattern in self.patterns]

    def recount(self, keys: list[Key]) -> None:
        """Counts of other hubs have changed: recompute the replies to PUBLISH."""
        for kind, name in keys:
            if kind == TOPIC and (topic := self.topics.get(name)) is not None:
                topic.renew()
            elif kind == PATTERN and (found := self.relayed.get(name)) is not None:
                self.note_change(found.glob)

    def elsewhere(self, topic: Topic) -> int:
        """Subscriptions at other hubs that a message of the topic matches."""
        if topic.is_shard:
            return 0
        patterns = sum(self.counts.of(PATTERN, pattern.glob.pattern) for pattern in topic.pattern_relays)
        return self.counts.of(TOPIC, topic.name) + patterns

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
        self.note_change(found.glob)

    def remove_pattern_relay(self, pattern: bytes, link: OutLink) -> None:
        found = self.relayed.get(pattern)
        if found is not None:
            found.relays.pop(link, None)
            if not found.relays:
                self.relayed.remove(found)
            self.note_change(found.glob)

    def remove_pattern_relays(self, link: OutLink) -> None:
        for pattern in [pattern for pattern in self.relayed if link in pattern.relays]:
            self.remove_pattern_relay(pattern.glob.pattern, link)

    def remove_pattern_member(self, pattern: Pattern, session: Subscriber, kind: Kind) -> None:
        _drop(pattern.members, session, kind)
        if not pattern.members:
            self.patterns.remove(pattern)
            self._quotas.give_back(Resource.PATTERNS, pattern.owner)
        self.counts.note(PATTERN, pattern.glob.pattern)
        self.note_change(pattern.glob)

    def sweep(self, count: int) -> bool:
        """Visit up to `count` topics without subscribers and remove the idle ones; return whether some are left.

        A topic is removed at the second visit without a subscriber and without a new message since the first.
        """
        if not self._sweep_left:
            self._sweep_left = len(self._unheard)
        for _ in range(min(count, self._sweep_left)):
            self._sweep_left -= 1
            self._visit()
        return self._sweep_left > 0

    def _has_room(self, size: int) -> bool:
        is_countable = len(self.topics) + len(self.shards) < self.topics_max
        return is_countable and self._quotas.has_room(Resource.TOPIC_BYTES, size)

    def make_room(self, size: int) -> bool:
        """Remove topics without subscribers, the longest unused first; return whether there is room now.

        Visits at most 3 % of the topics. If other hubs use all of these, the new topic is rejected, and the next call
        visits the topics behind them.
        """
        before = self.forgotten
        room = max(1, self.topics_max // 100)
        for _ in range(2 * room):
            if not self._unheard or self.forgotten - before == room:
                break
            self._visit()
        for _ in range(min(room, len(self._unheard))):
            if self._has_room(size):
                break
            # All were used recently. A removed topic continues under a new epoch; rejecting the new one would be worse.
            self._visit(is_spared=False)
        self._sweep_left = min(self._sweep_left, len(self._unheard))
        return self._has_room(size)

    def _enqueue(self, topic: Topic) -> None:
        """Queue a topic that has no subscriber now, as not visited yet."""
        topic.seen_n = -1
        if not topic.is_queued:
            topic.is_queued = True
            self._unheard.append(topic)

    def _visit(self, *, is_spared: bool = True) -> None:
        """Visit the next topic in the queue: remove it, or move it to the end if it was used since its last visit."""
        topic = self._unheard.popleft()
        if topic.has_subscribers:
            topic.is_queued = False
        elif topic.is_engaged or (is_spared and topic.n != topic.seen_n):
            topic.seen_n = topic.n
            self._unheard.append(topic)
        else:
            topic.is_queued = False
            self._forget(topic)

    def _forget(self, topic: Topic) -> None:
        del (self.shards if topic.is_shard else self.topics)[topic.name]
        self._quotas.give_back(Resource.TOPIC_BYTES, topic.owner, topic_bytes(topic.name))
        self.forgotten += 1
        published, delivered, bytes_out = self._former
        self._former = Totals(
            published + topic.published, delivered + topic.delivered, bytes_out + topic.bytes_out
        )


class TopicGc:
    """Remove idle topics every `idle_s` seconds while there are topics, in slices. Owned by HubCore."""

    def __init__(self, index: Callable[[], TopicIndex], turns: Turns, idle_s: float) -> None:
        self._index = index
        self._call_later = turns.shell.call_later
        self._idle_s = idle_s
        self._work = LongWork(turns)
        self._timer: Timer | None = None

    def begin(self) -> None:
        """Start the timer, if it is not running: there is a topic."""
        if self._timer is None and not self._work.is_running:
            self._timer = self._call_later(self._idle_s, self._sweep)

    def stop(self) -> None:
        self._work.cancel()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _sweep(self) -> None:
        self._timer = None
        self._work.run(self._steps(), self._rest)

    def _steps(self) -> Iterator[None]:
        while self._index().sweep(GC_SLICE):
            yield

    def _rest(self) -> None:
        if self._index().topics:
            self.begin()


def _with(kinds: tuple[Kind, ...], kind: Kind) -> tuple[Kind, ...]:
    if not kinds:
        return _ALONE[kind]
    return kinds if kind in kinds else (*kinds, kind)


def _drop(members: dict[Subscriber, tuple[Kind, ...]], session: Subscriber, kind: Kind) -> None:
    left = tuple(other for other in members[session] if other is not kind)
    if left:
        members[session] = left
    else:
        del members[session]
