"""Re-replicate ledgers of lost or drained bookies, and restore entries of damaged bookies.

A member of a segment is replaced only after the new member has stored every entry of the segment that the old one
stored; then one compare-and-set updates the node. Only its writer changes the last segment of an open ledger.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, replace
from random import Random

from equipoise.errors import BadVersionError, LedgerError
from equipoise.ledger.metadata import LedgerMetadata, LedgerState
from equipoise.ledger.placement import replacement_for
from equipoise.ledger.wire import Code
from equipoise.ledger_client.bookie_pool import BookiePool
from equipoise.ledger_client.ledger_reader import read_copy, write_copy
from equipoise.store.records.ledgers import LedgersStore

__all__ = ["Repair", "RepairOutcome", "entries_of", "ledgers_on"]

_ATTEMPTS = 5


@dataclass(frozen=True, slots=True)
class RepairOutcome:
    """The result for one ledger."""

    ledger: int
    entries_copied: int
    # Why the bookie is still a member of the ledger; empty: it is not.
    left: str = ""


async def ledgers_on(ledgers: LedgersStore, bookie: str) -> AsyncIterator[LedgerMetadata]:
    """Every ledger that has this bookie as a member of any segment."""
    async for ledger in ledgers.ids():
        try:
            metadata, _ = await ledgers.load(ledger)
        except LedgerError:
            continue
        if any(bookie in segment.members for segment in metadata.segments):
            yield metadata


class Repair:
    """Copies the entries of a bookie, which may be lost, to other bookies."""

    def __init__(
        self,
        pool: BookiePool,
        ledgers: LedgersStore,
        random: Random,
        *,
        site: str = "",
        pace: Callable[[int], Awaitable[None]] | None = None,
    ) -> None:
        """`pace` is awaited after each copied entry, with its bytes."""
        self._pace = pace
        self._pool = pool
        self._ledgers = ledgers
        self._random = random
        self._site = site

    async def move(self, ledger: int, bookie: str) -> RepairOutcome:
        """Replace the bookie in every segment of the ledger except the last one of an open ledger."""
        copied = 0
        for _ in range(_ATTEMPTS):
            try:
                metadata, version = await self._ledgers.load(ledger)
            except LedgerError:
                return RepairOutcome(ledger, copied)
            at = self._first_segment(metadata, bookie)
            if at is None:
                left = "its writer has not replaced the bookie yet" if _has(metadata, bookie) else ""
                return RepairOutcome(ledger, copied, left)
            segment = metadata.segments[at]
            other = replacement_for(
                self._pool.known, segment.members, site=self._site, draw=self._random.random
            )
            if other is None:
                return RepairOutcome(ledger, copied, "there is no other writable bookie")
            try:
                copied += await self._copy(metadata, at, segment.members.index(bookie), other)
            except LedgerError as error:
                return RepairOutcome(ledger, copied, str(error))
            members = tuple(other if member == bookie else member for member in segment.members)
            segments = list(metadata.segments)
            segments[at] = replace(segment, members=members)
            try:
                await self._ledgers.set(replace(metadata, segments=tuple(segments)), version)
            except BadVersionError:
                continue
            return await self._move_rest(ledger, bookie, copied)
        return RepairOutcome(ledger, copied, "its node keeps changing")

    async def _move_rest(self, ledger: int, bookie: str, copied: int) -> RepairOutcome:
        rest = await self.move(ledger, bookie)
        return replace(rest, entries_copied=rest.entries_copied + copied)

    def _first_segment(self, metadata: LedgerMetadata, bookie: str) -> int | None:
        is_closed = metadata.state is LedgerState.CLOSED
        past = metadata.segments if is_closed else metadata.segments[:-1]
        return next((at for at, segment in enumerate(past) if bookie in segment.members), None)

    async def _copy(self, metadata: LedgerMetadata, at: int, index: int, other: str) -> int:
        """Store the entries of the segment that the member with this index stores at `other`."""
        copied = 0
        for entry in entries_of(metadata, at):
            if index in metadata.quorum.write_set(entry):
                body, _ = await read_copy(self._pool, metadata, entry)
                code = await write_copy(self._pool, metadata, other, entry, body)
                if code is not Code.OK:
                    raise LedgerError(
                        metadata.ledger, f"bookie {other} did not store a copy: {code.name.lower()}"
                    )
                copied += 1
                if self._pace is not None:
                    await self._pace(len(body))
        return copied


def _has(metadata: LedgerMetadata, bookie: str) -> bool:
    return any(bookie in segment.members for segment in metadata.segments)


def entries_of(metadata: LedgerMetadata, at: int) -> range:
    """The entries of a segment: up to the next segment, or to the end of a closed ledger."""
    is_last = at + 1 == len(metadata.segments)
    end = metadata.last + 1 if is_last else metadata.segments[at + 1].first
    return range(metadata.segments[at].first, end)
