"""Restore entries that a damaged bookie lost from the other members of its ledgers.

If a region of the open segment is damaged when the bookie starts, it may have held any entry and any fence. The bookie
is then read-only and answers UNKNOWN for entries that it does not find. The restoration reads every ledger that names
the bookie from the store, copies missing entries from other members, and fences the ledgers that are not open. Then the
bookie may answer "no entry" again. The restoration waits for ledgers whose last segment names the bookie and which are
still being written or recovered: their writers replace a read-only member with their next entry.
"""

from __future__ import annotations

from equipoise.bookie.server import BookieServer
from equipoise.errors import LedgerError
from equipoise.ledger.entry import ledger_key
from equipoise.ledger.metadata import LedgerMetadata, LedgerState
from equipoise.ledger.wire import LAST_ENTRY, AddRequest, Code, Flag, ReadAnswer, ReadRequest, decode_answer
from equipoise.ledger_client.bookie_pool import BookiePool
from equipoise.ledger_client.ledger_reader import read_copy
from equipoise.ledger_client.repair import entries_of, ledgers_on
from equipoise.store.records.ledgers import LedgersStore

__all__ = ["restore_entries"]

_COPY = Flag.RECOVERY | Flag.HIGH_PRIORITY


async def restore_entries(server: BookieServer, pool: BookiePool, ledgers: LedgersStore, name: str) -> bool:
    """Returns whether all entries are restored. Raises StoreError."""
    async for metadata in ledgers_on(ledgers, name):
        if metadata.state is not LedgerState.CLOSED and name in metadata.current.members:
            return False
        try:
            await _restore_ledger(server, pool, metadata, name)
        except LedgerError:
            # No other member has a valid copy now. A later attempt may find one.
            return False
    await server.in_thread(server.engine.segments.settle_damage)
    return True


async def _restore_ledger(
    server: BookieServer, pool: BookiePool, metadata: LedgerMetadata, name: str
) -> None:
    engine, key = server.engine, ledger_key(metadata.password)
    if metadata.state is not LedgerState.OPEN:
        engine.submit(None, ReadRequest(metadata.ledger, LAST_ENTRY, key, Flag.FENCE))
    for at, segment in enumerate(metadata.segments):
        if name not in segment.members:
            continue
        index = segment.members.index(name)
        for entry in entries_of(metadata, at):
            if index not in metadata.quorum.write_set(entry) or _has(server, metadata.ledger, entry):
                continue
            body, _ = await read_copy(pool, metadata, entry)
            while engine.submit(None, AddRequest(metadata.ledger, entry, key, _COPY, body)) is not None:
                await server.written()
    await server.written()


def _has(server: BookieServer, ledger: int, entry: int) -> bool:
    answer = server.engine.submit(None, ReadRequest(ledger, entry, None, Flag(0)))
    found = None if answer is None else decode_answer(answer[4:])
    return isinstance(found, ReadAnswer) and found.code is Code.OK
