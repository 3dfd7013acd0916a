"""A consumer group: how far it has read, its consumers, and what they have not acknowledged.

Always true: an entry is pending for one consumer of a group at most, and both know it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator

from equipoise.log.ids import EntryId

__all__ = ["UNKNOWN_READ", "Consumer", "ConsumerGroup", "PendingEntries", "PendingEntry"]

# How many entries a group has read is not known: it was given an id in the middle, or entries were deleted.
UNKNOWN_READ = -1


class PendingEntry:
    """One entry that a consumer has got and not acknowledged."""

    __slots__ = ("consumer", "delivered_ms", "deliveries")

    def __init__(self, consumer: Consumer, delivered_ms: int, deliveries: int) -> None:
        self.consumer = consumer
        self.delivered_ms = delivered_ms
        self.deliveries = deliveries


class PendingEntries:
    """Pending entries by id, in order."""

    __slots__ = ("_order", "by_id")

    def __init__(self) -> None:
        self.by_id: dict[EntryId, PendingEntry] = {}
        self._order: list[EntryId] = []

    def __len__(self) -> int:
        return len(self._order)

    def put(self, at: EntryId, entry: PendingEntry) -> None:
        if at not in self.by_id:
            if not self._order or at > self._order[-1]:
                self._order.append(at)
            else:
                insort(self._order, at)
        self.by_id[at] = entry

    def remove(self, at: EntryId) -> None:
        if self.by_id.pop(at, None) is not None:
            del self._order[bisect_left(self._order, at)]

    def first(self) -> EntryId:
        return self._order[0]

    def last(self) -> EntryId:
        return self._order[-1]

    def range(self, start: EntryId, end: EntryId) -> Iterator[tuple[EntryId, PendingEntry]]:
        """Both ends included. Not to be used after a change."""
        order = self._order
        for i in range(bisect_left(order, start), bisect_right(order, end)):
            yield order[i], self.by_id[order[i]]


class Consumer:
    """One reader of a group, by the name that it gives itself."""

    __slots__ = ("name", "pending", "seen_ms")

    def __init__(self, name: bytes, seen_ms: int) -> None:
        self.name = name
        # When it last asked for anything. Not recorded by itself: after a failover it is the last recorded delivery.
        self.seen_ms = seen_ms
        self.pending = PendingEntries()


class ConsumerGroup:
    """Changed by TopicLog.apply only."""

    __slots__ = ("consumers", "entries_read", "last", "name", "pending")

    def __init__(self, name: bytes, last: EntryId, entries_read: int) -> None:
        self.name = name
        # The last id delivered, and how many entries from the first ever that is.
        self.last = last
        self.entries_read = entries_read
        self.consumers: dict[bytes, Consumer] = {}
        self.pending = PendingEntries()

    def consumer(self, name: bytes, at_ms: int) -> Consumer:
        """Made if need be."""
        found = self.consumers.get(name)
        if found is None:
            found = self.consumers[name] = Consumer(name, at_ms)
        return found

    def assign(self, at: EntryId, consumer: Consumer, delivered_ms: int, deliveries: int) -> None:
        """The entry is pending for this consumer and no other."""
        entry = self.pending.by_id.get(at)
        if entry is not None and entry.consumer is not consumer:
            entry.consumer.pending.remove(at)
        entry = PendingEntry(consumer, delivered_ms, deliveries)
        self.pending.put(at, entry)
        consumer.pending.put(at, entry)

    def release(self, at: EntryId) -> None:
        """The entry is no longer pending."""
        entry = self.pending.by_id.get(at)
        if entry is not None:
            entry.consumer.pending.remove(at)
            self.pending.remove(at)

    def drop(self, name: bytes) -> None:
        """Forget a consumer and what is pending for it."""
        consumer = self.consumers.pop(name, None)
        for at in [] if consumer is None else list(consumer.pending.by_id):
            self.pending.remove(at)
