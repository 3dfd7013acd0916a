"""A consumer group: its position, consumers and pending entries.

A durable subscriber reads as one consumer at a time, its holder: each time it attaches it gets a new one, and what was
pending for the former goes to it. So what a former life of the subscriber still asks for can be refused.

Always true:
    an entry is pending for one consumer of a group at most, and both know it;
    what is due for another delivery is in one of two heaps, together with what was and is not any more.
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

# How many entries a group has read is not known: it was given an id in the middle, or entries were deleted.
UNKNOWN_READ = -1


class RetryPolicy(NamedTuple):
    """When entries are delivered again, and how often. 0: never, without end; empty: no topic."""

    ack_timeout_ms: int = 0
    deliveries_max: int = 0
    # The topic that gets what was delivered so often and not acknowledged.
    dead_letter: bytes = b""


NEVER_RETRIED = RetryPolicy()


class PendingEntry:
    """One entry that a consumer has got and not acknowledged."""

    __slots__ = ("consumer", "delivered_ms", "deliveries", "due_ms", "reason", "size")

    def __init__(self, consumer: Consumer, delivered_ms: int, deliveries: int, size: int = 0) -> None:
        self.consumer = consumer
        self.delivered_ms = delivered_ms
        self.deliveries = deliveries
        # When it is to be delivered again; 0: when the consumer asks for it.
        self.due_ms = 0
        # Why a consumer refused it; empty: it did not.
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
        # The last id delivered, and how many entries from the first ever that is.
        self.last = last
        self.entries_read = entries_read
        self.consumers: dict[bytes, Consumer] = {}
        self.pending = PendingEntries()
        # By durable subscriber, the consumer that it reads as.
        self.holders: dict[bytes, bytes] = {}
        # Whether one durable subscriber reads alone.
        self.is_exclusive = False
        self.policy = NEVER_RETRIED
        # Due at and id, heaps: for another delivery, and for the dead-letter topic. An entry counts if it is pending
        # and due at that very time.
        self._due: list[tuple[int, EntryId]] = []
        self._dying: list[tuple[int, EntryId]] = []

    def consumer(self, name: bytes, at_ms: int) -> Consumer:
        """Made if need be."""
        found = self.consumers.get(name)
        if found is None:
            found = self.consumers[name] = Consumer(name, at_ms)
        return found

    def assign(
        self, at: EntryId, consumer: Consumer, delivered_ms: int, deliveries: int, size: int = 0
    ) -> None:
        """The entry is pending for this consumer and no other."""
        entry = self.pending.by_id.get(at)
        if entry is not None and entry.consumer is not consumer:
            entry.consumer.pending.remove(at)
        entry = PendingEntry(consumer, delivered_ms, deliveries, size)
        self.pending.put(at, entry)
        consumer.pending.put(at, entry)
        if self.policy.ack_timeout_ms:
            self._make_due(at, entry, delivered_ms + self.policy.ack_timeout_ms)

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
                    # No consumer has it in hand: it is delivered again when it is due.
                    self.assign(at, consumer, entry.delivered_ms, entry.deliveries, entry.size)
                    self.refuse(at, entry.due_ms, entry.reason)
                else:
                    self.assign(at, consumer, at_ms, entry.deliveries + is_restarted, entry.size)
            del self.consumers[each]

    def is_displaced(self, name: bytes) -> bool:
        """Whether another consumer has taken the place of this one, or reads alone."""
        if self.is_exclusive:
            return name not in self.holders.values()
        subscriber, mark, _ = name.rpartition(b"@")
        return bool(mark) and self.holders.get(subscriber, name) != name

    def is_held_by(self, name: bytes) -> bool:
        """Whether a durable subscriber reads as this consumer: its window is bounded."""
        return name in self.holders.values()

    # --- another delivery

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
        """When an entry is to be delivered again; None: none is."""
        return self._first_of(self._due)

    def next_death_ms(self) -> int | None:
        """When an entry is to go to the dead-letter topic; None: none is."""
        return self._first_of(self._dying)

    def due(self, now_ms: int) -> list[tuple[EntryId, PendingEntry]]:
        """What is to be delivered again by now, in the order of ids; it is due until it is delivered."""
        return self._until(self._due, now_ms)

    def dying(self, now_ms: int) -> list[tuple[EntryId, PendingEntry]]:
        """What was delivered as often as it may be, and is to go to the dead-letter topic by now."""
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
