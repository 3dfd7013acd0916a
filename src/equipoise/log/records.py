"""Records of a log: each is one complete change of its state.

Records say what happened, not what was asked: an id that was chosen, the entries that a consumer got, the time. So the
same records always give the same state, at whichever hub they are read.

A run is what is appended at once: one entry of a ledger. It is stored as MessagePack, records as arrays that begin
with their number. Numbers are never given a second meaning.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from equipoise.errors import DamagedError
from equipoise.log.ids import EntryId
from equipoise.log.sequences import SequenceRow

__all__ = [
    "ConsumerAttached",
    "ConsumerCreated",
    "ConsumerDeleted",
    "ConsumerSnapshot",
    "EntriesAcked",
    "EntriesAckedUpTo",
    "EntriesDeleted",
    "EntriesDelivered",
    "EntriesPending",
    "EntriesRefused",
    "EntriesTrimmed",
    "EntryAdded",
    "GroupCreated",
    "GroupDestroyed",
    "GroupMoved",
    "GroupReset",
    "GroupSnapshot",
    "IdempotencySet",
    "LastIdSet",
    "LogCreated",
    "LogDeleted",
    "LogRecord",
    "LogSnapshot",
    "PendingRow",
    "ProducerAdvanced",
    "RetryPolicySet",
    "decode_run",
    "encode_run",
]


class LogCreated(msgspec.Struct, frozen=True, array_like=True, tag=0):
    """An empty log, made by XGROUP CREATE … MKSTREAM."""


class EntryAdded(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """`body` is the array of fields and values in RESP, as it is sent to readers."""

    ms: int
    seq: int
    body: bytes
    # Of a producer that may send the entry again: its name and its name for the entry. Empty: none.
    producer: bytes = b""
    token: bytes = b""


class EntriesTrimmed(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """All entries before this id are gone."""

    first: EntryId


class EntriesDeleted(msgspec.Struct, frozen=True, array_like=True, tag=3):
    ids: tuple[EntryId, ...]


class LastIdSet(msgspec.Struct, frozen=True, array_like=True, tag=4):
    """XSETID, with all that it leaves as it was spelled out."""

    last: EntryId
    entries_added: int
    max_deleted: EntryId


class GroupCreated(msgspec.Struct, frozen=True, array_like=True, tag=5):
    group: bytes
    last: EntryId
    entries_read: int


class GroupDestroyed(msgspec.Struct, frozen=True, array_like=True, tag=6):
    group: bytes


class GroupMoved(msgspec.Struct, frozen=True, array_like=True, tag=7):
    """The last delivered id of a group."""

    group: bytes
    last: EntryId
    entries_read: int


class ConsumerCreated(msgspec.Struct, frozen=True, array_like=True, tag=8):
    group: bytes
    consumer: bytes
    at_ms: int


class ConsumerDeleted(msgspec.Struct, frozen=True, array_like=True, tag=9):
    group: bytes
    consumer: bytes


class EntriesDelivered(msgspec.Struct, frozen=True, array_like=True, tag=10):
    """New entries went to a consumer for the first time; pending from now on unless NOACK was asked for."""

    group: bytes
    consumer: bytes
    ids: tuple[EntryId, ...]
    at_ms: int
    entries_read: int
    is_pending: bool = True


class EntriesPending(msgspec.Struct, frozen=True, array_like=True, tag=11):
    """Entries are pending for this consumer, whichever had them before: (id, delivered at, deliveries) of each."""

    group: bytes
    consumer: bytes
    rows: tuple[tuple[EntryId, int, int], ...]


class EntriesAcked(msgspec.Struct, frozen=True, array_like=True, tag=12):
    """Entries are no longer pending."""

    group: bytes
    ids: tuple[EntryId, ...]


class LogDeleted(msgspec.Struct, frozen=True, array_like=True, tag=13):
    """The log is as if it had never been."""


class IdempotencySet(msgspec.Struct, frozen=True, array_like=True, tag=14):
    """XCFGSET: how long, and how many of, a producer's tokens are remembered."""

    duration_s: int
    tokens_max: int


class ProducerAdvanced(msgspec.Struct, frozen=True, array_like=True, tag=30):
    """The entry before this record is number `n` of a run of its producer."""

    producer: bytes
    run: int
    n: int


class ConsumerAttached(msgspec.Struct, frozen=True, array_like=True, tag=16):
    """A durable subscriber reads as this consumer from now on; what was pending for its former one goes to the new one.

    Of an exclusive subscriber: what was pending for any consumer. If it `is_restarted` the subscriber cannot know what
    it has got before: each of these entries counts as delivered once more.
    """

    group: bytes
    subscriber: bytes
    consumer: bytes
    at_ms: int
    is_exclusive: bool
    is_restarted: bool


class EntriesAckedUpTo(msgspec.Struct, frozen=True, array_like=True, tag=17):
    """What is pending for the consumer up to this id is no longer."""

    group: bytes
    consumer: bytes
    last: EntryId


class EntriesRefused(msgspec.Struct, frozen=True, array_like=True, tag=18):
    """A negative ack: the entries are due for another delivery then."""

    group: bytes
    ids: tuple[EntryId, ...]
    due_ms: int
    reason: bytes


class RetryPolicySet(msgspec.Struct, frozen=True, array_like=True, tag=19):
    """When entries of a group are delivered again, how often, and which topic gets them then. 0, empty: never, none."""

    group: bytes
    ack_timeout_ms: int
    deliveries_max: int
    dead_letter: bytes


class GroupReset(msgspec.Struct, frozen=True, array_like=True, tag=20):
    """The group begins anew behind this id: nothing is pending."""

    group: bytes
    last: EntryId
    entries_read: int


class ConsumerSnapshot(msgspec.Struct, frozen=True, array_like=True):
    name: bytes
    seen_ms: int


# Id, consumer, delivered at, deliveries.
PendingRow = tuple[EntryId, bytes, int, int]


class GroupSnapshot(msgspec.Struct, frozen=True, array_like=True):
    name: bytes
    last: EntryId
    entries_read: int
    consumers: tuple[ConsumerSnapshot, ...]
    pending: tuple[PendingRow, ...]
    # The consumer of each durable subscriber, and whether no other consumer may read.
    holders: tuple[tuple[bytes, bytes], ...] = ()
    is_exclusive: bool = False
    # As in RetryPolicySet.
    ack_timeout_ms: int = 0
    deliveries_max: int = 0
    dead_letter: bytes = b""
    # Id, due at and reason of each negative ack.
    refused: tuple[tuple[EntryId, int, bytes], ...] = ()


class LogSnapshot(msgspec.Struct, frozen=True, array_like=True, tag=15):
    """All state but the entries themselves. First in each ledger, so that the ledgers before can be deleted."""

    exists: bool
    # The first entry that is kept; what ledgers hold below it is gone.
    first: EntryId
    last: EntryId
    entries_added: int
    max_deleted: EntryId
    groups: tuple[GroupSnapshot, ...]
    # By producer, (token, id) of each entry that it may send again, the oldest first.
    producers: tuple[tuple[bytes, tuple[tuple[bytes, EntryId], ...]], ...] = ()
    duration_s: int = 0
    tokens_max: int = 0
    sequences: tuple[SequenceRow, ...] = ()
    # Of the last entry ever added.
    number: int = 0


LogRecord = (
    LogCreated
    | EntryAdded
    | EntriesTrimmed
    | EntriesDeleted
    | LastIdSet
    | GroupCreated
    | GroupDestroyed
    | GroupMoved
    | ConsumerCreated
    | ConsumerDeleted
    | EntriesDelivered
    | EntriesPending
    | EntriesAcked
    | LogDeleted
    | IdempotencySet
    | ProducerAdvanced
    | LogSnapshot
    | ConsumerAttached
    | EntriesAckedUpTo
    | EntriesRefused
    | RetryPolicySet
    | GroupReset
)

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(list[LogRecord])


def encode_run(records: Sequence[LogRecord]) -> bytes:
    return _encoder.encode(records)


def decode_run(data: bytes, place: str) -> list[LogRecord]:
    """Raises DamagedError, which names the place, if the bytes are no run of records."""
    try:
        return _decoder.decode(data)
    except msgspec.MsgspecError as problem:
        raise DamagedError(place, f"{len(data)} bytes are no run of log records: {problem}") from problem
