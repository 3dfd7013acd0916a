"""A consumer group: its position, consumers and pending entries.

A durable subscriber reads as one consumer at a time, its holder. Each attach creates a new holder and transfers the
pending entries of the previous holder to it. Requests under the name of a previous holder, from an older connection of
the subscriber, can then be refused.

Always true:
    an entry is pending for at most one consumer of a group, and group and consumer agree on which;
    each entry with a due time is in one of two heaps; the heaps may also contain stale items.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from heapq import heappop, heappush
from typing import NamedTuple

from equipoise.log.ids import ID_MAX, ID_MIN, EntryId

__all__ = [
    "NEVER_RETRIED",
    "UNKNOWN_READ",
    "Consumer",
    "ConsumerGroup",
    "PendingEntries",
    "PendingEntry",
    "RetryPolicy",
]

# Redis's entries-read counter is unknown: the group was created at an id in the middle, or entries were deleted.
UNKNOWN_READ = -1


class RetryPolicy(NamedTuple):
    """When and how often entries are redelivered. `ack_timeout_ms` 0: never. `deliveries_max` 0: no limit."""

    ack_timeout_ms: int = 0
    deliveries_max: int = 0
    # Receives entries that were delivered `deliveries_max` times without an ack. Empty: no topic.
    dead_letter: bytes = b""


NEVER_RETRIED = RetryPolicy()


class PendingEntry:
    """An entry that was delivered to a consumer and is not acknowledged."""

    __slots__ = ("consumer", "delivered_ms", "deliveries", "due_ms", "reason", "size")

    def __init__(self, consumer: Consumer, delivered_ms: int, deliveries: int, size: int = 0) -> None:
        self.consumer = consumer
        self.delivered_ms = delivered_ms
        self.deliveries = deliveries
        # When the entry is redelivered; 0: only when the consumer requests it.
        self.due_ms = 0
        # The reason of a negative ack; empty: none.
        self.reason = b""
        self.size = size


class PendingEntries:
    """Pending entries by id, in order."""

    __slots__ = ("_order", "by_id", "bytes")

    def __init__(self) -> None:
        self.by_id: dict[EntryId, PendingEntry] = {}
        self._order: list[EntryId] = []
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._order)

    def put(self, at: EntryId, entry: PendingEntry) -> None:
        former = self.by_id.get(at)
        if former is not None:
            self.bytes -= former.size
        elif not self._order or at > self._order[-1]:
            self._order.append(at)
        else:
            insort(self._order, at)
        self.by_id[at] = entry
        self.bytes += entry.size

    def remove(self, at: EntryId) -> None:
        former = self.by_id.pop(at, None)
        if former is not None:
            self.bytes -= former.size
            del self._order[bisect_left(self._order, at)]

    def first(self) -> EntryId:
        return self._order[0]

    def last(self) -> EntryId:
        return self._order[-1]

    def range(self, start: EntryId, end: EntryId) -> Iterator[tuple[EntryId, PendingEntry]]:
        """Both ends included. Not valid after a change of the group."""
        order = self._order
        for i in range(bisect_left(order, start), bisect_right(order, end)):
            yield order[i], self.by_id[order[i]]


class Consumer:
    """A reader of a group, under the name that it chose."""

    __slots__ = ("name", "pending", "seen_ms")

    def __init__(self, name: bytes, seen_ms: int) -> None:
        self.name = name
        # The time of its last command. Not recorded as a change: after a failover it is the last recorded delivery.
        self.seen_ms = seen_ms
        self.pending = PendingEntries()


class ConsumerGroup:
    """Changed by TopicLog.apply only."""

    __slots__ = (
        "_due",
        "_dying",
        "consumers",
        "entries_read",
        "holders",
        "is_exclusive",
        "last",
        "name",
        "pending",
        "policy",
    )

    def __init__(self, name: bytes, last: EntryId, entries_read: int) -> None:
        self.name = name
        # The last delivered id, and how many entries were ever added up to it.
        self.last = last
        self.entries_read = entries_read
        self.consumers: dict[bytes, Consumer] = {}
        self.pending = PendingEntries()
        # Consumer by durable subscriber.
        self.holders: dict[bytes, bytes] = {}
        # Whether only one durable subscriber may read.
        self.is_exclusive = False
        self.policy = NEVER_RETRIED
        # Heaps of (due time, id), for redelivery and for the dead-letter topic. An item is stale unless the entry is
        # pending and has that due time.
        self._due: list[tuple[int, EntryId]] = []
        self._dying: list[tuple[int, EntryId]] = []

    def consumer(self, name: bytes, at_ms: int) -> Consumer:
        """Get or create a consumer."""
        found = self.consumers.get(name)
        if found is None:
            found = self.consumers[name] = Consumer(name, at_ms)
        return found

    def assign(
        self, at: EntryId, consumer: Consumer, delivered_ms: int, deliveries: int, size: int = 0
    ) -> None:
        """Make the entry pending for this consumer only."""
        entry = self.pending.by_id.get(at)
        if entry is not None and entry.consumer is not consumer:
            entry.consumer.pending.remove(at)
        entry = PendingEntry(consumer, delivered_ms, deliveries, size)
        self.pending.put(at, entry)
        consumer.pending.put(at, entry)
        if self.policy.ack_timeout_ms:
            self._make_due(at, entry, delivered_ms + self.policy.ack_timeout_ms)

    def release(self, at: EntryId) -> None:
        """Remove an entry from the pending entries."""
        entry = self.pending.by_id.get(at)
        if entry is not None:
            entry.consumer.pending.remove(at)
            self.pending.remove(at)

    def drop(self, name: bytes) -> None:
        """Delete a consumer and its pending entries."""
        consumer = self.consumers.pop(name, None)
        for at in [] if consumer is None else list(consumer.pending.by_id):
            self.pending.remove(at)

    # --- durable subscribers

    def attach(
        self, subscriber: bytes, name: bytes, at_ms: int, *, is_exclusive: bool, is_restarted: bool
    ) -> None:
        former = self.holders.get(subscriber)
        given_up = [each for each in self.consumers if is_exclusive or each == former]
        if is_exclusive:
            self.holders.clear()
        self.holders[subscriber] = name
        self.is_exclusive = is_exclusive
        consumer = self.consumer(name, at_ms)
        for each in given_up:
            if each == name:
                continue
            for at, entry in list(self.consumers[each].pending.range(ID_MIN, ID_MAX)):
                if entry.reason:
                    # The entry was negatively acknowledged: it is redelivered when it is due, not with this attach.
                    self.assign(at, consumer, entry.delivered_ms, entry.deliveries, entry.size)
                    self.refuse(at, entry.due_ms, entry.reason)
                else:
                    self.assign(at, consumer, at_ms, entry.deliveries + is_restarted, entry.size)
            del self.consumers[each]

    def is_displaced(self, name: bytes) -> bool:
        """Whether another consumer replaced this one as holder, or a durable subscriber reads exclusively."""
        if self.is_exclusive:
            return name not in self.holders.values()
        subscriber, mark, _ = name.rpartition(b"@")
        return bool(mark) and self.holders.get(subscriber, name) != name

    def is_held_by(self, name: bytes) -> bool:
        """Whether a durable subscriber reads as this consumer. Its unacknowledged entries are limited."""
        return name in self.holders.values()

    # --- redelivery

    def set_policy(self, policy: RetryPolicy) -> None:
        self.policy = policy
        self._due.clear()
        self._dying.clear()
        for at, entry in self.pending.range(ID_MIN, ID_MAX):
            timeout_ms = policy.ack_timeout_ms
            due_ms = entry.delivered_ms + timeout_ms if timeout_ms else 0
            self._make_due(at, entry, entry.due_ms if entry.reason else due_ms)

    def refuse(self, at: EntryId, due_ms: int, reason: bytes) -> None:
        entry = self.pending.by_id.get(at)
        if entry is not None:
            entry.reason = reason
            self._make_due(at, entry, due_ms)

    def _make_due(self, at: EntryId, entry: PendingEntry, due_ms: int) -> None:
        entry.due_ms = due_ms
        if due_ms:
            is_last = 0 < self.policy.deliveries_max <= entry.deliveries
            heappush(self._dying if is_last else self._due, (due_ms, at))

    def next_due_ms(self) -> int | None:
        """When the next entry is to be redelivered; None: no entry is."""
        return self._first_of(self._due)

    def next_death_ms(self) -> int | None:
        """When the next entry is to be moved to the dead-letter topic; None: no entry is."""
        return self._first_of(self._dying)

    def due(self, now_ms: int) -> list[tuple[EntryId, PendingEntry]]:
        """Entries due for redelivery by now, in order of ids. They stay due until they are delivered."""
        return self._until(self._due, now_ms)

    def dying(self, now_ms: int) -> list[tuple[EntryId, PendingEntry]]:
        """Entries that reached the delivery limit and are due for the dead-letter topic by now."""
        return self._until(self._dying, now_ms)

    def _first_of(self, heap: list[tuple[int, EntryId]]) -> int | None:
        while heap:
            due_ms, at = heap[0]
            entry = self.pending.by_id.get(at)
            if entry is not None and entry.due_ms == due_ms:
                return due_ms
            heappop(heap)
        return None

    def _until(self, heap: list[tuple[int, EntryId]], now_ms: int) -> list[tuple[EntryId, PendingEntry]]:
        found: list[tuple[int, EntryId]] = []
        while (due_ms := self._first_of(heap)) is not None and due_ms <= now_ms:
            found.append(heappop(heap))
        for each in found:
            heappush(heap, each)
        return [(at, self.pending.by_id[at]) for at in sorted({at for _, at in found})]
