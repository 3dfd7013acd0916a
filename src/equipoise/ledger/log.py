"""The contract between durable topics and ledgers: create, append, recover, read, delete.

One ledger has one topic, one epoch and one writer. Entry 0 is the ledger's header, which `create` writes to the whole
write quorum before it returns; the owner's entries begin with FIRST_ENTRY.

Always true:
    completions of one ledger come in the order of its appends, each exactly once;
    an append that completed with its number is returned by every later `read`, in any process, and lies at or before
    the last entry that `recover` returns;
    once `recover` has returned, no append of the former writer completes with a number that lies behind it;
    an append that completed with an error may or may not be stored: `recover` decides, once and for good.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from equipoise.errors import LedgerError
from equipoise.ledger.metadata import LedgerMetadata
from equipoise.ledger.quorum import Quorum

__all__ = ["EPOCH_KEY", "FIRST_ENTRY", "READ_BYTES_MAX", "TOPIC_KEY", "Completion", "Ledgers", "OpenLedger"]

# The first entry of the owner; entry 0 is the header.
FIRST_ENTRY = 1
# Names in the custom part of a ledger's metadata.
TOPIC_KEY = "topic"
EPOCH_KEY = "epoch"
# What one `read` brings by default: some hundred entries of usual size, one of the largest.
READ_BYTES_MAX = 8 * 1024 * 1024

# Called with the number of the entry once it is acknowledged, or with why it never will be by this writer.
Completion = Callable[[int | LedgerError], None]


class OpenLedger(Protocol):
    """A ledger that its creator appends to."""

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
        """Why the ledger takes no more entries: fenced, closed, or too few bookies. Roll to a new ledger then."""
        ...

    def append(self, payload: bytes, completion: Completion) -> int:
        """Take an entry and return its number; `completion` is called later, never from within.

        Any number may be in flight: the caller bounds them. Raises LedgerError, with nothing stored and nothing in
        flight, once the ledger has failed or is closing; LimitError for a payload that is too long for a frame.
        """
        ...

    async def close(self) -> int:
        """Close the ledger after the last acknowledged entry and return its number.

        Appends in flight complete with an error: wait for them first. Raises LedgerError if another process has
        recovered the ledger with another end.
        """
        ...


class Ledgers(Protocol):
    """All ledgers of a region. Every method may raise StoreUnavailableError: then nothing is known."""

    async def create(self, topic: bytes, epoch: int, quorum: Quorum) -> OpenLedger:
        """A new ledger, its header stored on the whole write quorum. Raises LedgerError where bookies are missing."""
        ...

    async def recover(self, ledger: int) -> int:
        """Fence the ledger, settle its end, close it, and return its last entry: 0 if there is only the header.

        May be repeated, and run by several processes at once: all get the same end. Raises LedgerError if too few
        bookies answer (try again later) or if the ledger is deleted; DamagedError if its metadata cannot be read.
        """
        ...

    async def confirmed(self, ledger: int) -> int:
        """An entry of an open ledger up to which all are acknowledged; the writer goes on. 0 if none is known to be.

        Raises LedgerError.
        """
        ...

    async def read(
        self, ledger: int, first: int, last: int, *, bytes_max: int = READ_BYTES_MAX
    ) -> list[bytes]:
        """The payloads from `first` on, at most to `last`: at least one, then as many as fit into `bytes_max`.

        Ask only for acknowledged entries. Raises LedgerError if no bookie has a valid copy, or the ledger is deleted.
        """
        ...

    async def metadata(self, ledger: int) -> LedgerMetadata:
        """State, members, quorum, creation time and, once closed, last entry and bytes."""
        ...

    async def delete(self, ledger: int) -> None:
        """Delete the ledger; its bookies free the room later. Deleting twice does no harm."""
        ...

    def bring_home(self, ledgers: Sequence[int], is_wanted: Callable[[], bool]) -> None:
        """Copy closed ledgers to bookies of this process's site, later and slowly, while that is wanted."""
        ...
