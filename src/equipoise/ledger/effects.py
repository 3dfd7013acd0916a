"""Effects of a writer or a recovery, as plain values that the shell executes."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from equipoise.ledger.metadata import LedgerMetadata

__all__ = [
    "Acknowledge",
    "Add",
    "Effect",
    "FailureReason",
    "Fence",
    "LedgerFailed",
    "Recovered",
    "RecoveryRead",
    "SetMetadata",
]


class FailureReason(StrEnum):
    """Why a ledger accepts no more entries, or could not be recovered."""

    # Another writer recovers, or has closed, the ledger. Roll to a new ledger.
    FENCED = "fenced"
    # A bookie knows the ledger under another key.
    WRONG_KEY = "wrong key"
    # The owner closed the ledger.
    CLOSED = "closed"
    # The node of the ledger differs from this writer's last version.
    METADATA = "metadata changed"
    # Too few bookies reply to determine which entries were acknowledged.
    TOO_FEW = "too few bookies"
    # The ledger's node was deleted.
    DELETED = "deleted"


class Add(NamedTuple):
    """Send an entry to a bookie; its reply is the event `add_answered`."""

    bookie: str
    entry: int
    # The stored entry.
    body: bytes
    is_recovery: bool = False
    # Delay of the request: the bookie is busy.
    delay_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Fence:
    """Read a bookie's last entry of the ledger, and fence the ledger there."""

    bookie: str


@dataclass(frozen=True, slots=True)
class RecoveryRead:
    """Read an entry by a recovery read, which fences, too."""

    bookie: str
    entry: int


@dataclass(frozen=True, slots=True)
class SetMetadata:
    """Write the ledger's node by compare-and-set, with the version that was read or written last."""

    metadata: LedgerMetadata


class Acknowledge(NamedTuple):
    """The entry is stored by its ack quorum, and so is every entry before it."""

    entry: int


@dataclass(frozen=True, slots=True)
class LedgerFailed:
    """No further effects follow. Entries from `first` on may or may not be stored: recovery decides."""

    reason: FailureReason
    # The first entry without an acknowledgement.
    first: int


@dataclass(frozen=True, slots=True)
class Recovered:
    """The ledger is closed, by this recovery or by another: its last entry is final."""

    metadata: LedgerMetadata


Effect = Add | Fence | RecoveryRead | SetMetadata | Acknowledge | LedgerFailed | Recovered
