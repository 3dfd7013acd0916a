"""Read entries of a ledger from any member that has a valid copy, and give copies back to members that lost theirs.

Always true: an entry is returned only if its digest is right; damage, silence and errors lead to the next member, never
to "no such entry".
"""

from __future__ import annotations

import asyncio

from equipoise.errors import DamagedError, DisconnectedError, LedgerError
from equipoise.ledger.entry import LedgerEntry, decode_entry, ledger_key
from equipoise.ledger.metadata import LedgerMetadata
from equipoise.ledger.wire import Code, Flag, ReadAnswer
from equipoise.ledger_client.bookie_pool import BookiePool

__all__ = ["read_copy", "read_entries", "write_copy"]

# Entries that are asked for at once: enough to fill a connection, few enough to stop in time.
_WINDOW = 32
_REPAIR = Flag.RECOVERY | Flag.HIGH_PRIORITY


async def read_entries(
    pool: BookiePool, metadata: LedgerMetadata, first: int, last: int, *, bytes_max: int
) -> list[bytes]:
    """At least one payload, then as many as fit. Raises LedgerError if an entry has no valid copy."""
    found: list[bytes] = []
    size = 0
    while first <= last:
        window = range(first, min(first + _WINDOW, last + 1))
        entries = await asyncio.gather(*(read_copy(pool, metadata, entry) for entry in window))
        for _, entry in entries:
            size += len(entry.payload)
            if found and size > bytes_max:
                return found
            found.append(entry.payload)
        first = window.stop
    return found


async def read_copy(pool: BookiePool, metadata: LedgerMetadata, entry: int) -> tuple[bytes, LedgerEntry]:
    """The stored entry and what it says. Members that answered that theirs is damaged get it again."""
    members = metadata.members_at(entry)
    damaged: list[str] = []
    reasons: list[str] = []
    for index in metadata.quorum.write_set(entry):
        bookie = members[index]
        answer = await _ask(pool, bookie, metadata.ledger, entry)
        if answer is not None and answer.code is Code.OK:
            try:
                found = decode_entry(answer.body, ledger=metadata.ledger, entry=entry)
            except DamagedError as error:
                reasons.append(f"{bookie}: {error.reason}")
                damaged.append(bookie)
                continue
            for other in damaged:
                await write_copy(pool, metadata, other, entry, answer.body)
            return answer.body, found
        if answer is not None and answer.code is Code.UNKNOWN and pool.open_link(bookie) is not None:
            damaged.append(bookie)
        reasons.append(f"{bookie}: {'no answer' if answer is None else answer.code.name.lower()}")
    raise LedgerError(metadata.ledger, f"entry {entry} cannot be read ({', '.join(reasons)})")


async def write_copy(
    pool: BookiePool, metadata: LedgerMetadata, bookie: str, entry: int, body: bytes
) -> Code:
    """Store a copy of an entry at a bookie, fenced ledger or not."""
    try:
        link = await pool.link(bookie)
    except DisconnectedError:
        return Code.UNKNOWN
    answered: asyncio.Future[Code] = asyncio.get_running_loop().create_future()

    def set_answer(code: Code) -> None:
        if not answered.done():
            answered.set_result(code)

    link.add(metadata.ledger, entry, ledger_key(metadata.password), body, set_answer, _REPAIR)
    return await answered


async def _ask(pool: BookiePool, bookie: str, ledger: int, entry: int) -> ReadAnswer | None:
    """None if the bookie does not answer in time."""
    try:
        async with asyncio.timeout(pool.settings.answer_timeout_s):
            link = await pool.link(bookie)
            return await link.read(ledger, entry)
    except (DisconnectedError, TimeoutError):
        return None
