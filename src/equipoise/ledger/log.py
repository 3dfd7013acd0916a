"""The contract of ledgers for durable topics: create, append, recover, read, delete.

One ledger has one topic, one epoch and one writer. Entry 0 is the ledger's header, which `create` writes to the whole
write quorum before it returns; the owner's entries begin with FIRST_ENTRY.

Always true:
    completions of a ledger are called in the order of its appends, each exactly once;
    if an append completed with its number, every later `read` in any process returns it, and it is at or before the
    last entry that `recover` returns;
    after `recover` has returned, no append of the previous writer completes with a later number;
    an append that completed with an error may be stored: `recover` decides, once and finally.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from equipoise.errors import LedgerError
from equipoise.ledger.metadata import LedgerMetadata
from equipoise.ledger.quorum import Quorum

__all__ = ["EPOCH_KEY", "FIRST_ENTRY", "READ_BYTES_MAX", "TOPIC_KEY", "Completion", "Ledgers", "OpenLedger"]

# The owner's first entry; entry 0 is the header.
FIRST_ENTRY = 1
# Keys in the custom metadata of a ledger.
TOPIC_KEY = "topic"
EPOCH_KEY = "epoch"
# Default limit of a `read`: some hundred entries of usual size, or one of the maximum size.
READ_BYTES_MAX = 8 * 1024 * 1024

# Called with the entry's number once it is acknowledged, or with the reason why this writer cannot acknowledge it.
Completion = Callable[[int | LedgerError], None]


class OpenLedger(Protocol):
    """A ledger, for the process that created it and appends to it."""

    @property
    def ledger(self) -> int: ...

    @property
    def confirmed(self) -> int:
        """The last acknowledged entry; 0, the header, at first."""
        ...

    @property
    def in_flight(self) -> int:
        """Entries appended and neither acknowledged nor failed."""
        ...

    @property
    def failed(self) -> LedgerError | None:
        """Why the ledger accepts no more entries: fenced, closed, or too few bookies. Continue in a new ledger."""
        ...

    def append(self, payload: bytes, completion: Completion) -> int:
        """Append an entry and return its number. `completion` is called later, never during this call.

        The caller bounds the entries in flight. Raises LedgerError, without an effect, once the ledger has failed or is
        closing; LimitError if the payload is too long for a frame.
        """
        ...

    async def close(self) -> int:
        """Close the ledger after the last acknowledged entry and return its number.

        Appends in flight complete with an error: wait for them first. Raises LedgerError if another process has
        recovered the ledger with another last entry.
        """
        ...


class Ledgers(Protocol):
    """All ledgers of a region. If a method raises StoreUnavailableError, its outcome is unknown."""

    async def create(self, topic: bytes, epoch: int, quorum: Quorum) -> OpenLedger:
        """Create a ledger and store its header on the whole write quorum. Raises LedgerError if bookies are missing."""
        ...

    async def recover(self, ledger: int) -> int:
        """Fence the ledger, determine its last entry, close it, and return that entry: 0 if there is only the header.

        May be repeated, and run by several processes concurrently: all return the same entry. Raises LedgerError if too
        few bookies answer (retry later) or the ledger is deleted; DamagedError if its metadata cannot be read.
        """
        ...

    async def confirmed(self, ledger: int) -> int:
        """An entry of an open ledger up to which all are acknowledged, without fencing the writer. 0 if none is known.

        Raises LedgerError.
        """
        ...

    async def read(
        self, ledger: int, first: int, last: int, *, bytes_max: int = READ_BYTES_MAX
    ) -> list[bytes]:
        """The payloads from `first` to `last`: at least one, then as many as fit into `bytes_max`.

        Only for acknowledged entries. Raises LedgerError if no bookie has a valid copy, or the ledger is deleted.
        """
        ...

    async def metadata(self, ledger: int) -> LedgerMetadata:
        """State, members, quorum, creation time and, once closed, last entry and bytes."""
        ...

    async def delete(self, ledger: int) -> None:
        """Delete the ledger. Its bookies free the space later. Idempotent."""
        ...

    def relocate(self, ledgers: Sequence[int], is_wanted: Callable[[], bool]) -> None:
        """Copy closed ledgers to bookies of this process's site, in the background, while `is_wanted` returns True."""
        ...
