"""Records of a log: each is one complete change of its state.

Records contain results, not requests: the chosen id, the entries that a consumer received, the time. The same records
therefore give the same state at every hub.

A run is a list of records appended together, as one entry of a ledger. It is encoded as MessagePack; a record is an
array that begins with its tag. A tag is never reused with another meaning.
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
    """Creates an empty log (XGROUP CREATE … MKSTREAM, XCFGSET … MKSTREAM)."""


class EntryAdded(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """`body`: the array of fields and values in RESP, as sent to readers."""

    ms: int
    seq: int
    body: bytes
    # The producer and its idempotency token for the entry, if the producer may resend it. Empty: none.
    producer: bytes = b""
    token: bytes = b""


class EntriesTrimmed(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """Removes all entries before this id."""

    first: EntryId


class EntriesDeleted(msgspec.Struct, frozen=True, array_like=True, tag=3):
    ids: tuple[EntryId, ...]


class LastIdSet(msgspec.Struct, frozen=True, array_like=True, tag=4):
    """XSETID, with the values that its omitted options default to."""

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
    """Sets the last delivered id of a group."""

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
    """New entries were delivered to a consumer. They are pending unless NOACK was given."""

    group: bytes
    consumer: bytes
    ids: tuple[EntryId, ...]
    at_ms: int
    entries_read: int
    is_pending: bool = True


class EntriesPending(msgspec.Struct, frozen=True, array_like=True, tag=11):
    """Makes entries pending for this consumer only: (id, delivered at, deliveries) of each."""

    group: bytes
    consumer: bytes
    rows: tuple[tuple[EntryId, int, int], ...]


class EntriesAcked(msgspec.Struct, frozen=True, array_like=True, tag=12):
    """Removes entries from the pending entries."""

    group: bytes
    ids: tuple[EntryId, ...]


class LogDeleted(msgspec.Struct, frozen=True, array_like=True, tag=13):
    """Resets the log to the state before its creation."""


class IdempotencySet(msgspec.Struct, frozen=True, array_like=True, tag=14):
    """XCFGSET: retention time and maximum number of a producer's tokens."""

    duration_s: int
    tokens_max: int


class ProducerAdvanced(msgspec.Struct, frozen=True, array_like=True, tag=30):
    """The entry of the previous record is number `n` of a run of its producer."""

    producer: bytes
    run: int
    n: int


class ConsumerAttached(msgspec.Struct, frozen=True, array_like=True, tag=16):
    """A durable subscriber attached as this consumer. The entries pending for its previous consumer become pending for
    this one; for an exclusive subscriber, those of all consumers. If it `is_restarted`, the subscriber does not know
    which entries it received: each of them counts as delivered once more.
    """

    group: bytes
    subscriber: bytes
    consumer: bytes
    at_ms: int
    is_exclusive: bool
    is_restarted: bool


class EntriesAckedUpTo(msgspec.Struct, frozen=True, array_like=True, tag=17):
    """Removes the consumer's pending entries up to this id."""

    group: bytes
    consumer: bytes
    last: EntryId


class EntriesRefused(msgspec.Struct, frozen=True, array_like=True, tag=18):
    """A negative ack: the entries are redelivered at `due_ms`."""

    group: bytes
    ids: tuple[EntryId, ...]
    due_ms: int
    reason: bytes


class RetryPolicySet(msgspec.Struct, frozen=True, array_like=True, tag=19):
    """When and how often entries of a group are redelivered, and the dead-letter topic. 0: never; empty: no topic."""

    group: bytes
    ack_timeout_ms: int
    deliveries_max: int
    dead_letter: bytes


class GroupReset(msgspec.Struct, frozen=True, array_like=True, tag=20):
    """The group starts again after this id, without pending entries."""

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
    """The state of the log except its entries. Each ledger starts with one, so that earlier ledgers can be deleted."""

    exists: bool
    # The first entry that is kept; earlier entries in ledgers are deleted.
    first: EntryId
    last: EntryId
    entries_added: int
    max_deleted: EntryId
    groups: tuple[GroupSnapshot, ...]
    # By producer: (token, id) of each remembered entry, oldest first.
    producers: tuple[tuple[bytes, tuple[tuple[bytes, EntryId], ...]], ...] = ()
    duration_s: int = 0
    tokens_max: int = 0
    sequences: tuple[SequenceRow, ...] = ()
    # Number of the last entry ever added.
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
    """Raises DamagedError, which names the place, if the bytes are not a run of records."""
    try:
        return _decoder.decode(data)
    except msgspec.MsgspecError as problem:
        raise DamagedError(place, f"{len(data)} bytes are no run of log records: {problem}") from problem
