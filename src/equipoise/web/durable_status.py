"""Bookies, ledgers and logs in the store, for pages and metrics. Read-only.

A read of the status takes a request to the store for each log and each ledger, so it is made on demand, at most every
few seconds, and for a bounded number of logs and ledgers; `is_partial`: there are more.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

from equipoise.errors import DamagedError, LedgerError
from equipoise.ledger.metadata import LedgerMetadata
from equipoise.ledger.registration import BookieFacts
from equipoise.model.names import shown, to_id
from equipoise.store import Store, Tree
from equipoise.store.records.bookies import BookiesStore
from equipoise.store.records.ledgers import LedgersStore
from equipoise.store.records.topic_logs import TopicLogsStore
from equipoise.store.tree import TOPIC_FOLDERS

__all__ = ["DurableStatus"]

Json = dict[str, Any]

# How long a result is valid.
KEPT_S = 10.0
LOGS_MAX = 1_000
LEDGERS_MAX = 10_000
# Concurrent requests.
_AT_ONCE = 64


class DurableStatus:
    """Owned by the pages of one controller. `clock` is any clock in seconds."""

    def __init__(self, store: Store, tree: Tree, clock: Callable[[], float]) -> None:
        self._bookies = BookiesStore(store, tree)
        self._ledgers = LedgersStore(store, tree)
        self._logs = TopicLogsStore(store, tree)
        self._clock = clock
        self._turn = asyncio.Lock()
        self._until = 0.0
        self._found: Json = {}

    async def look(self) -> Json:
        """The present status. Raises StoreError."""
        async with self._turn:
            if not self._found or self._clock() >= self._until:
                self._found = await self._look()
                self._until = self._clock() + KEPT_S
            return self._found

    async def _look(self) -> Json:
        known = await self._bookies.load()
        names = sorted({*known, *await self._bookies.cookies()})
        logs, is_partial = await self._look_at_logs() if names else ([], False)
        ledgers = await self._look_at_ledgers() if names else []
        held, short = Counter[str](), 0
        for ledger in ledgers:
            members = {member for segment in ledger.segments for member in segment.members}
            held.update(members)
            short += not members <= known.keys()
        rows = [await self._row(name, known.get(name), held[name]) for name in names]
        return {
            "bookies": rows,
            "logs": logs,
            "ledgers": len(ledgers),
            "ledgers_under_replicated": short,
            "is_partial": is_partial or len(ledgers) >= LEDGERS_MAX,
        }

    async def _row(self, name: str, facts: BookieFacts | None, ledgers: int) -> Json:
        is_draining = await self._bookies.is_draining(name)
        state = "lost" if facts is None else "read-only" if facts.is_read_only else "writable"
        row: Json = {
            "bookie": name,
            "state": f"{state}, draining" if is_draining else state,
            "is_alive": facts is not None,
            "is_writable": facts is not None and not facts.is_read_only,
            "ledgers": ledgers,
        }
        if facts is None:
            return row | dict.fromkeys(("address", "site", "rack", "free_bytes", "total_bytes", "sync_s_p99"))
        return row | {
            "address": f"{facts.host}:{facts.port}",
            "site": facts.site,
            "rack": facts.rack,
            "free_bytes": facts.free_bytes,
            "total_bytes": facts.total_bytes,
            "sync_s_p99": facts.sync_us_p99 / 1e6 if facts.sync_us_p99 else None,
        }

    async def _look_at_logs(self) -> tuple[list[Json], bool]:
        found = await asyncio.gather(*map(self._logs.names, range(TOPIC_FOLDERS)))
        names = sorted(name for names in found for name in names)
        rows: list[Json] = []
        for start in range(0, min(len(names), LOGS_MAX), _AT_ONCE):
            rows += await asyncio.gather(*map(self._log_row, names[start : start + _AT_ONCE]))
        return rows[:LOGS_MAX], len(names) > LOGS_MAX

    async def _log_row(self, name: bytes) -> Json:
        row: Json = {"id": to_id(name), "topic": shown(name), "problem": None}
        try:
            node = (await self._logs.load(name)).node
        except DamagedError as problem:
            return row | {"owner": None, "epoch": 0, "ledgers": 0, "problem": str(problem)}
        return row | {"owner": node.owner or None, "epoch": node.epoch, "ledgers": len(node.ledgers)}

    async def _look_at_ledgers(self) -> list[LedgerMetadata]:
        found: list[LedgerMetadata] = []
        async for ledger in self._ledgers.ids():
            try:
                found.append((await self._ledgers.load(ledger))[0])
            except (LedgerError, DamagedError):
                # Deleted meanwhile; `equipoise bookies show` reports damaged ones.
                continue
            if len(found) >= LEDGERS_MAX:
                break
        return found
