"""The state of one topic's log: a fold over its records.

Only `apply` changes the state, except for `Consumer.seen_ms`. `change` applies a record of a command and keeps it until
the layer above takes it with `take_changes` and appends it.

The state is therefore ahead of the committed records. The layer above holds every reply, to reads and writes, until the
records that it depends on are committed. If the append fails, that layer discards the state and folds the log again.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import assert_never

from equipoise.log import records as r
from equipoise.log.consumer_group import UNKNOWN_READ, ConsumerGroup, RetryPolicy
from equipoise.log.entries import Entries, entry_piece
from equipoise.log.ids import ID_MAX, ID_MIN, EntryId, spell_ids
from equipoise.log.sequences import ProducerSequences
from equipoise.resp.replies import bulk

__all__ = ["TOKENS_MAX", "TOKEN_DURATION_S", "TopicLog"]

# Retention time and maximum number of a producer's tokens: Redis's defaults.
TOKEN_DURATION_S = 100
TOKENS_MAX = 100


class TopicLog:
    """Owned by the component that appends to the log. Commands receive it for one call."""

    def __init__(self) -> None:
        # Records that are applied and not yet taken.
        self.changes: list[r.LogRecord] = []
        self.entries = Entries()
        self._clear()

    def _clear(self) -> None:
        # Whether the log exists. A log without entries may have been created or emptied.
        self.exists = False
        self.entries = Entries(self.entries.number)
        # Id and number of entries ever added, and the greatest id deleted by XDEL.
        self.last: EntryId = ID_MIN
        self.entries_added = 0
        self.max_deleted: EntryId = ID_MIN
        self.groups: dict[bytes, ConsumerGroup] = {}
        # By producer: the id of the entry of each token, oldest first.
        self.producers: dict[bytes, OrderedDict[bytes, EntryId]] = {}
        self.token_duration_s = TOKEN_DURATION_S
        self.tokens_max = TOKENS_MAX
        self.sequences = ProducerSequences()

    # --- changes

    def change(self, record: r.LogRecord) -> None:
        """Apply a record of a command and keep it for `take_changes`."""
        self.changes.append(record)
        self.apply(record)

    def change_all(self, ms: int, seq: int, bodies: list[bytes]) -> list[bytes]:
        """Add entries without producers, the first under this id, for one command or several consecutive ones.

        Returns the ids as bulk strings.
        """
        count = len(bodies)
        if count == 1:
            self.changes.append(r.EntryAdded(ms, seq, bodies[0]))
            bulks = [bulk(b"%d-%d" % (ms, seq))]
            self.entries.add((ms, seq), b"*2\r\n%b%b" % (bulks[0], bodies[0]))
        else:
            numbers = range(seq, seq + count)
            self.changes += [r.EntryAdded(ms, n, body) for n, body in zip(numbers, bodies, strict=True)]
            bulks = spell_ids(ms, seq, count)
            pieces = [b"*2\r\n%b%b" % pair for pair in zip(bulks, bodies, strict=True)]
            self.entries.add_all([(ms, n) for n in numbers], pieces)
        self.exists = True
        self.last = ms, seq + count - 1
        self.entries_added += count
        return bulks

    def take_changes(self) -> list[r.LogRecord]:
        """The records since the last call, to be appended."""
        changes, self.changes = self.changes, []
        return changes

    @property
    def has_changes(self) -> bool:
        return bool(self.changes)

    def apply_all(self, run: Iterable[r.LogRecord]) -> None:
        for record in run:
            self.apply(record)

    def apply(self, record: r.LogRecord) -> None:
        match record:
            case r.EntryAdded():
                self._add(record)
            case r.EntriesDelivered() | r.EntriesPending() | r.EntriesAcked():
                self._apply_deliveries(record)
            case r.EntriesAckedUpTo() | r.EntriesRefused() | r.RetryPolicySet():
                self._apply_retries(record)
            case r.EntriesTrimmed():
                self.entries.trim(record.first)
            case r.EntriesDeleted():
                for at in record.ids:
                    if self.entries.delete(at):
                        self.max_deleted = max(self.max_deleted, at)
            case r.LastIdSet():
                self.last, self.entries_added = record.last, record.entries_added
                self.max_deleted = record.max_deleted
            case r.LogCreated():
                self.exists = True
            case r.LogDeleted():
                self._clear()
            case r.IdempotencySet():
                self.token_duration_s, self.tokens_max = record.duration_s, record.tokens_max
                self.producers.clear()
            case r.ProducerAdvanced():
                self.sequences.advance(record.producer, record.run, record.n, self.last)
            case r.LogSnapshot():
                self._restore(record)
            case _:
                self._apply_group(record)

    def _add(self, record: r.EntryAdded) -> None:
        at = (record.ms, record.seq)
        self.entries.add(at, entry_piece(at, record.body))
        self.exists = True
        self.last = at
        self.entries_added += 1
        if record.producer:
            tokens = self.producers.setdefault(record.producer, OrderedDict())
            tokens[record.token] = at
            while len(tokens) > self.tokens_max:
                tokens.popitem(last=False)

    def _apply_deliveries(self, record: r.EntriesDelivered | r.EntriesPending | r.EntriesAcked) -> None:
        group = self.groups[record.group]
        match record:
            case r.EntriesAcked():
                for at in record.ids:
                    group.release(at)
            case r.EntriesPending():
                consumer = group.consumer(record.consumer, 0)
                for at, delivered_ms, deliveries in record.rows:
                    group.assign(at, consumer, delivered_ms, deliveries, self.entries.size(at))
                    consumer.seen_ms = max(consumer.seen_ms, delivered_ms)
            case r.EntriesDelivered():
                consumer = group.consumer(record.consumer, record.at_ms)
                consumer.seen_ms = max(consumer.seen_ms, record.at_ms)
                group.last, group.entries_read = record.ids[-1], record.entries_read
                for at in record.ids if record.is_pending else ():
                    group.assign(at, consumer, record.at_ms, 1, self.entries.size(at))

    def _apply_retries(self, record: r.EntriesAckedUpTo | r.EntriesRefused | r.RetryPolicySet) -> None:
        group = self.groups[record.group]
        match record:
            case r.EntriesAckedUpTo():
                consumer = group.consumers.get(record.consumer)
                for at, _ in [] if consumer is None else list(consumer.pending.range(ID_MIN, record.last)):
                    group.release(at)
            case r.EntriesRefused():
                for at in record.ids:
                    group.refuse(at, record.due_ms, record.reason)
            case r.RetryPolicySet():
                group.set_policy(
                    RetryPolicy(record.ack_timeout_ms, record.deliveries_max, record.dead_letter)
                )

    def _apply_group(
        self,
        record: r.GroupCreated
        | r.GroupDestroyed
        | r.GroupMoved
        | r.GroupReset
        | r.ConsumerCreated
        | r.ConsumerDeleted
        | r.ConsumerAttached,
    ) -> None:
        match record:
            case r.GroupCreated():
                self.groups[record.group] = ConsumerGroup(record.group, record.last, record.entries_read)
            case r.GroupDestroyed():
                del self.groups[record.group]
            case r.GroupMoved() | r.GroupReset():
                group = self.groups[record.group]
                group.last, group.entries_read = record.last, record.entries_read
                for at in list(group.pending.by_id) if isinstance(record, r.GroupReset) else ():
                    group.release(at)
            case r.ConsumerAttached():
                self.groups[record.group].attach(
                    record.subscriber,
                    record.consumer,
                    record.at_ms,
                    is_exclusive=record.is_exclusive,
                    is_restarted=record.is_restarted,
                )
            case r.ConsumerCreated():
                self.groups[record.group].consumer(record.consumer, record.at_ms)
            case r.ConsumerDeleted():
                self.groups[record.group].drop(record.consumer)
            case _:
                assert_never(record)

    # --- snapshots

    def snapshot(self) -> r.LogSnapshot:
        """The state except the entries, for the beginning of a ledger."""
        return r.LogSnapshot(
            exists=self.exists,
            first=self.entries.first() or ID_MAX,
            last=self.last,
            entries_added=self.entries_added,
            max_deleted=self.max_deleted,
            groups=tuple(map(_snapshot_of, self.groups.values())),
            producers=tuple((name, tuple(tokens.items())) for name, tokens in self.producers.items()),
            duration_s=self.token_duration_s,
            tokens_max=self.tokens_max,
            sequences=self.sequences.rows(),
            number=self.entries.number,
        )

    def _restore(self, record: r.LogSnapshot) -> None:
        """Keep the entries: those in earlier ledgers that still exist were added before this record."""
        entries = self.entries
        self._clear()
        self.entries = entries
        entries.trim(record.first)
        # Snapshots of earlier releases lack the number.
        entries.number = max(entries.number, record.number or record.entries_added)
        self.exists, self.last = record.exists, record.last
        self.entries_added, self.max_deleted = record.entries_added, record.max_deleted
        self.token_duration_s, self.tokens_max = record.duration_s, record.tokens_max
        self.producers = {name: OrderedDict(tokens) for name, tokens in record.producers}
        self.sequences = ProducerSequences(record.sequences)
        for row in record.groups:
            group = self.groups[row.name] = ConsumerGroup(row.name, row.last, row.entries_read)
            for consumer in row.consumers:
                group.consumer(consumer.name, consumer.seen_ms)
            group.holders, group.is_exclusive = dict(row.holders), row.is_exclusive
            group.policy = RetryPolicy(row.ack_timeout_ms, row.deliveries_max, row.dead_letter)
            for at, name, delivered_ms, deliveries in row.pending:
                reader = group.consumer(name, delivered_ms)
                group.assign(at, reader, delivered_ms, deliveries, entries.size(at))
            for at, due_ms, reason in row.refused:
                group.refuse(at, due_ms, reason)

    # --- facts

    @property
    def first(self) -> EntryId:
        """The first entry's id; the least one if there is none."""
        return self.entries.first() or ID_MIN

    def has_deleted_since(self, at: EntryId) -> bool:
        """Whether XDEL may have deleted an entry after this id, so that entries cannot be counted."""
        return (
            self.entries.count > 0 and self.max_deleted != ID_MIN and self.max_deleted >= max(at, self.first)
        )

    def entries_until(self, at: EntryId) -> int:
        """How many entries were ever added up to this id; UNKNOWN_READ if it cannot be counted."""
        if not self.entries_added:
            return 0
        if not self.entries.count and at <= self.last:
            return self.entries_added
        if at >= self.last:
            return self.entries_added if at == self.last else UNKNOWN_READ
        first = self.first
        if at <= first and (self.max_deleted == ID_MIN or self.max_deleted < first):
            return self.entries_added - self.entries.count + (at == first)
        return UNKNOWN_READ

    @property
    def lag_max(self) -> int:
        """The greatest known lag of a group; 0 without groups."""
        return max((self.lag(group) or 0 for group in self.groups.values()), default=0)

    def missed(self, group: ConsumerGroup) -> int:
        """How many trimmed entries the group has missed; 0 if that is unknown."""
        first = self.entries.first()
        if first is None or first <= group.last or group.entries_read == UNKNOWN_READ:
            return 0
        until = self.entries_until(first)
        return 0 if until == UNKNOWN_READ else max(0, until - 1 - group.entries_read)

    def next_due_ms(self) -> int | None:
        """When the next entry of a group is to be redelivered or moved to its dead-letter topic; None: never."""
        groups = self.groups.values()
        due = [
            at for group in groups for at in (group.next_due_ms(), group.next_death_ms()) if at is not None
        ]
        return min(due, default=None)

    def lag(self, group: ConsumerGroup) -> int | None:
        """How many entries the group has not read; None if that is unknown."""
        if not self.entries_added:
            return 0
        if group.entries_read != UNKNOWN_READ and not self.has_deleted_since(group.last):
            return self.entries_added - group.entries_read
        read = self.entries_until(group.last)
        return None if read == UNKNOWN_READ else self.entries_added - read


def _snapshot_of(group: ConsumerGroup) -> r.GroupSnapshot:
    return r.GroupSnapshot(
        name=group.name,
        last=group.last,
        entries_read=group.entries_read,
        consumers=tuple(r.ConsumerSnapshot(each.name, each.seen_ms) for each in group.consumers.values()),
        pending=tuple(
            (at, entry.consumer.name, entry.delivered_ms, entry.deliveries)
            for at, entry in group.pending.range(ID_MIN, ID_MAX)
        ),
        holders=tuple(group.holders.items()),
        is_exclusive=group.is_exclusive,
        ack_timeout_ms=group.policy.ack_timeout_ms,
        deliveries_max=group.policy.deliveries_max,
        dead_letter=group.policy.dead_letter,
        refused=tuple(
            (at, entry.due_ms, entry.reason)
            for at, entry in group.pending.range(ID_MIN, ID_MAX)
            if entry.reason
        ),
    )
