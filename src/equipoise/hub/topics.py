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

from collections.abc import Callable, Iterator
from itertools import chain, islice
from typing import TYPE_CHECKING, NamedTuple

from equipoise.hub.kinds import Kind
from equipoise.model import Glob

if TYPE_CHECKING:
    from equipoise.hub.audience import Audience
    from equipoise.hub.session import Session


class Topic:
    """One topic's stream, members and meters. The hot path reads and writes the attributes directly."""

    __slots__ = (
        "audience",
        "bytes_in",
        "bytes_out",
        "cuts",
        "delivered",
        "drops",
        "epoch",
        "is_shard",
        "members",
        "n",
        "name",
        "seen_n",
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
        # Payload bytes published; bytes written to subscribers; messages written to them.
        self.bytes_in = 0
        self.bytes_out = 0
        self.delivered = 0
        # Subscribers cut for being too slow while messages of this topic waited for them, and those messages.
        self.cuts = 0
        self.drops = 0
        # n when the sweep last came by; an equal n on its next visit means an idle topic.
        self.seen_n = -1


class Pattern:
    """A glob and its subscribers, each with the kinds it subscribed by."""

    __slots__ = ("glob", "members")

    def __init__(self, glob: Glob) -> None:
        self.glob = glob
        self.members: dict[Session, tuple[Kind, ...]] = {}


class Totals(NamedTuple):
    """Messages published, messages delivered, bytes delivered."""

    published: int = 0
    delivered: int = 0
    bytes_out: int = 0


class TopicIndex:
    """All topics and patterns of a hub."""

    def __init__(self, topics_max: int, new_epoch: Callable[[], int]) -> None:
        self.topics: dict[bytes, Topic] = {}
        self.shards: dict[bytes, Topic] = {}
        self.patterns: dict[bytes, Pattern] = {}
        # Patterns by the literal bytes that matching names begin with, so that a topic looks at few of them.
        self._by_prefix: dict[bytes, list[Pattern]] = {}
        self._prefix_lengths: list[int] = []
        self._topics_max = topics_max
        self._new_epoch = new_epoch
        # Counts changes of patterns and their members: an audience compiled under another version is stale.
        # Looking for the topics that a pattern matches would stall the loop when there are many.
        self.version = 0
        self.forgotten = 0
        # Sums over forgotten topics, so that totals never fall.
        self._former = Totals()

    def totals(self) -> Totals:
        """Sums over all topics, past and present. Counting when asked keeps the hot path free of it."""
        published, delivered, bytes_out = self._former
        for topic in chain(self.topics.values(), self.shards.values()):
            published += topic.n
            delivered += topic.delivered
            bytes_out += topic.bytes_out
        return Totals(published, delivered, bytes_out)

    def find(self, name: bytes, *, is_shard: bool = False) -> Topic | None:
        return (self.shards if is_shard else self.topics).get(name)

    def create(self, name: bytes, *, is_shard: bool = False) -> Topic | None:
        """A new topic; None when the hub is full of topics that are in use."""
        if len(self.topics) + len(self.shards) >= self._topics_max and not self._make_room():
            return None
        topic = Topic(name, self._new_epoch(), is_shard=is_shard)
        (self.shards if is_shard else self.topics)[name] = topic
        return topic

    def add_member(self, topic: Topic, session: Session, kind: Kind) -> None:
        topic.members[session] = _with(topic.members.get(session, ()), kind)
        topic.audience = None

    def remove_member(self, topic: Topic, session: Session, kind: Kind) -> None:
        _drop(topic.members, session, kind)
        topic.audience = None

    def add_pattern_member(self, pattern: bytes, session: Session, kind: Kind) -> Pattern:
        found = self.patterns.get(pattern)
        if found is None:
            found = self.patterns[pattern] = Pattern(Glob(pattern))
            self._by_prefix.setdefault(found.glob.prefix, []).append(found)
            self._prefix_lengths = sorted({len(prefix) for prefix in self._by_prefix})
        found.members[session] = _with(found.members.get(session, ()), kind)
        self.version += 1
        return found

    def remove_pattern_member(self, pattern: Pattern, session: Session, kind: Kind) -> None:
        _drop(pattern.members, session, kind)
        if not pattern.members:
            prefix = pattern.glob.prefix
            del self.patterns[pattern.glob.pattern]
            self._by_prefix[prefix].remove(pattern)
            if not self._by_prefix[prefix]:
                del self._by_prefix[prefix]
                self._prefix_lengths = sorted({len(other) for other in self._by_prefix})
        self.version += 1

    def patterns_of(self, name: bytes) -> Iterator[Pattern]:
        """The patterns that match a name, in the order of their prefixes' lengths."""
        for length in self._prefix_lengths:
            if length > len(name):
                return
            for pattern in self._by_prefix.get(name[:length], ()):
                if pattern.glob.matches(name):
                    yield pattern

    def sweep(self, start: int, count: int) -> int:
        """Visit `count` topics from index `start` and forget the idle ones; the next index, 0 at the end.

        A topic goes on the second visit that finds it without members and without a new message.
        """
        visited = list(islice(self.topics.values(), start, start + count))
        for topic in visited:
            if not topic.members and topic.n == topic.seen_n:
                self._forget(topic)
                start -= 1
            topic.seen_n = topic.n
        # Shard channels have no entry without members: they carry no positions that anyone could miss.
        return start + count if len(visited) == count else 0

    def release(self, topic: Topic) -> None:
        """A shard channel nobody subscribes to is forgotten at once."""
        if topic.is_shard and not topic.members:
            self._forget(topic)

    def _make_room(self) -> bool:
        """Forget the oldest topics that nobody subscribes to; whether there were any."""
        room = max(1, self._topics_max // 100)
        idle = list(islice((topic for topic in self.topics.values() if not topic.members), room))
        for topic in idle:
            self._forget(topic)
        return bool(idle)

    def _forget(self, topic: Topic) -> None:
        del (self.shards if topic.is_shard else self.topics)[topic.name]
        self.forgotten += 1
        published, delivered, bytes_out = self._former
        self._former = Totals(published + topic.n, delivered + topic.delivered, bytes_out + topic.bytes_out)


def _with(kinds: tuple[Kind, ...], kind: Kind) -> tuple[Kind, ...]:
    return kinds if kind in kinds else (*kinds, kind)


def _drop(members: dict[Session, tuple[Kind, ...]], session: Session, kind: Kind) -> None:
    left = tuple(other for other in members[session] if other is not kind)
    if left:
        members[session] = left
    else:
        del members[session]
