"""Read entries of a ledger from any member with a valid copy, and repair members without one.

If each member has all entries, many are requested from one member at once (a batch read). Entries that this member
lacks or has no valid copy of are read one by one, as are those of bookies without batch reads.

Always true: an entry is returned only if its digest is valid. After damage, a timeout or an error the next member is
read; they never count as "no such entry".
"""

from __future__ import annotations

import asyncio

from equipoise.clock import done_within
from equipoise.errors import DamagedError, DisconnectedError, LedgerError
from equipoise.ledger.entry import LedgerEntry, decode_entry, ledger_key
from equipoise.ledger.metadata import LedgerMetadata
from equipoise.ledger.wire import LAST_ENTRY, Code, Flag, ReadAnswer
from equipoise.ledger_client.bookie_link import BookieLink
from equipoise.ledger_client.bookie_pool import BookiePool

__all__ = ["read_confirmed", "read_copy", "read_entries", "write_copy"]

# Entries requested at once: enough to fill a connection, few enough to stop in time; the maximum is for short entries.
_WINDOW = 32
_WINDOW_MAX = 1024
# Limits of a batch read: a bookie answers within some milliseconds.
_BATCH = 512
_BATCH_BYTES = 1024 * 1024
_REPAIR = Flag.RECOVERY | Flag.HIGH_PRIORITY


async def read_entries(
    pool: BookiePool, metadata: LedgerMetadata, first: int, last: int, *, bytes_max: int
) -> list[bytes]:
    """At least one payload, then as many as fit. Raises LedgerError if an entry has no valid copy."""
    found: list[bytes] = []
    size, count = 0, _WINDOW
    while first <= last:
        entries = await _read_batch(pool, metadata, first, last, bytes_max - size)
        is_batch = bool(entries)
        if not is_batch:
            window = range(first, min(first + count, last + 1))
            entries = await _read_window(pool, metadata, window)
        for entry in entries:
            size += len(entry.payload)
            if found and size > bytes_max:
                return found
            found.append(entry.payload)
        first += len(entries)
        if not is_batch:
            # The estimated number of entries that fit.
            count = max(_WINDOW, min(_WINDOW_MAX, (bytes_max - size) * len(found) // (size + 1)))
    return found


async def read_confirmed(pool: BookiePool, metadata: LedgerMetadata) -> int:
    """An entry up to which all are acknowledged, according to the last entry at a member; 0 if no member answers."""
    for bookie in sorted(metadata.current.members, key=pool.is_silent):
        answer = await _ask(pool, bookie, metadata.ledger, LAST_ENTRY)
        if answer is not None and answer.code is Code.OK:
            try:
                return max(0, decode_entry(answer.body, ledger=metadata.ledger).confirmed)
            except DamagedError:
                continue
    return 0


async def _read_batch(
    pool: BookiePool, metadata: LedgerMetadata, first: int, last: int, bytes_max: int
) -> list[LedgerEntry]:
    """Valid consecutive entries from one member, starting with `first`. None of them: read one by one."""
    quorum = metadata.quorum
    bookie = _members(pool, metadata, first)[0]
    facts = pool.known.get(bookie)
    if first == last or quorum.ensemble != quorum.write or facts is None or not facts.has_batches:
        return []
    link = await _link(pool, bookie)
    if link is None:
        return []
    # Later segments may have other members.
    end = min((each.first for each in metadata.segments if each.first > first), default=last + 1)
    count = min(_BATCH, last + 1 - first, end - first)
    asked = link.ask_batch(
        metadata.ledger, first, count_max=count, bytes_max=max(0, min(bytes_max, _BATCH_BYTES))
    )
    is_answered = await done_within(asked, pool.settings.answer_timeout_s)
    if not is_answered or not link.is_open:
        asked.cancel()
        pool.note_silent(bookie)
        return []
    found: list[LedgerEntry] = []
    for body in asked.result().bodies[:count]:
        try:
            found.append(decode_entry(body, ledger=metadata.ledger, entry=first + len(found)))
        except DamagedError:
            break
    return found


async def _read_window(pool: BookiePool, metadata: LedgerMetadata, window: range) -> list[LedgerEntry]:
    """Read these entries, each from one member, and from the others if that one has no valid copy."""
    asked: dict[int, tuple[str, asyncio.Future[ReadAnswer]]] = {}
    links: dict[str, BookieLink | None] = {}
    for entry in window:
        bookie = _members(pool, metadata, entry)[0]
        if bookie not in links:
            links[bookie] = await _link(pool, bookie)
        link = links[bookie]
        if link is not None:
            asked[entry] = bookie, link.ask(metadata.ledger, entry)
    if asked:
        await asyncio.wait([answer for _, answer in asked.values()], timeout=pool.settings.answer_timeout_s)
    for bookie, answer in asked.values():
        link = links[bookie]
        if not answer.done() or (link is not None and not link.is_open):
            pool.note_silent(bookie)
    found = [_valid(asked.get(entry), metadata.ledger, entry) for entry in window]
    missing = [place for place, entry in enumerate(found) if entry is None]
    copies = await asyncio.gather(*(read_copy(pool, metadata, window[place]) for place in missing))
    for place, (_, copy) in zip(missing, copies, strict=True):
        found[place] = copy
    return [entry for entry in found if entry is not None]


def _valid(
    asked: tuple[str, asyncio.Future[ReadAnswer]] | None, ledger: int, entry: int
) -> LedgerEntry | None:
    """The entry in a member's answer; None without an answer or without a valid copy."""
    if asked is None:
        return None
    answer = asked[1]
    if not answer.done():
        answer.cancel()
        return None
    if answer.result().code is not Code.OK:
        return None
    try:
        return decode_entry(answer.result().body, ledger=ledger, entry=entry)
    except DamagedError:
        return None


def _members(pool: BookiePool, metadata: LedgerMetadata, entry: int) -> list[str]:
    """The members that store the entry. Those whose answers recently timed out come last."""
    members = metadata.members_at(entry)
    return sorted((members[index] for index in metadata.quorum.write_set(entry)), key=pool.is_silent)


async def read_copy(pool: BookiePool, metadata: LedgerMetadata, entry: int) -> tuple[bytes, LedgerEntry]:
    """The stored entry, encoded and decoded. Members whose copy is damaged receive it again."""
    damaged: list[str] = []
    reasons: list[str] = []
    for bookie in _members(pool, metadata, entry):
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
    """Store a copy of an entry at a bookie, also if the ledger is fenced."""
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
    """Send a read to a bookie; None if it does not answer in time."""
    link = await _link(pool, bookie)
    if link is None:
        return None
    try:
        async with asyncio.timeout(pool.settings.answer_timeout_s):
            answer = await link.read(ledger, entry)
    except TimeoutError:
        pool.note_silent(bookie)
        return None
    if not link.is_open:
        pool.note_silent(bookie)
    return answer


async def _link(pool: BookiePool, bookie: str) -> BookieLink | None:
    try:
        async with asyncio.timeout(pool.settings.answer_timeout_s):
            return await pool.link(bookie)
    except (DisconnectedError, TimeoutError):
        pool.note_silent(bookie)
        return None
