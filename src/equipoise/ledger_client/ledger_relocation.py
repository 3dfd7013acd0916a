"""Copy closed ledgers of a log to the site of its owner, at a bounded pace.

A log whose owner has changed sites goes on in a ledger at the new one at once. Its former ledgers are read over the
long way, and are lost with the old site, until they have been copied: one ledger after the other, each member that is
elsewhere replaced by a bookie of this site, as `Repair` replaces one that is drained.

Always true:
    a member counts only after it has every entry that the one before it had;
    where this site has no bookie for a member, the member stays where it is.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from random import Random

from equipoise.errors import LedgerError, StoreError
from equipoise.ledger.metadata import LedgerMetadata, LedgerState
from equipoise.ledger_client.bookie_pool import BookiePool
from equipoise.ledger_client.repair import Repair
from equipoise.store.records.ledgers import LedgersStore

__all__ = ["LedgerRelocation"]

log = logging.getLogger("equipoise.ledger_client")

# How often one ledger is tried, and how long after a failure, in seconds: a bookie may be away for a while.
_TRIES_MAX = 100
_AGAIN_S = 1.0


class _Errand:
    """One ledger to look after."""

    __slots__ = ("due_at", "is_wanted", "ledger", "times_home", "tries")

    def __init__(self, ledger: int, is_wanted: Callable[[], bool]) -> None:
        self.ledger = ledger
        self.is_wanted = is_wanted
        self.due_at = 0.0
        self.tries = 0
        # It is looked at twice: the former owner may have finished a copy to its own site meanwhile.
        self.times_home = 0


class LedgerRelocation:
    """Owned by the ledgers of one process. `stop` in the end."""

    def __init__(self, pool: BookiePool, records: LedgersStore, random: Random, site: str) -> None:
        self._pool = pool
        self._records = records
        self._site = site
        self._repair = Repair(pool, records, random, site=site, pace=self._pause)
        self._queue: deque[_Errand] = deque()
        self._current: _Errand | None = None
        self._task: asyncio.Task[None] | None = None
        self.ledgers_brought = 0
        self.bytes_copied = 0

    def bring(self, ledgers: Sequence[int], is_wanted: Callable[[], bool]) -> None:
        """Copy them later. `is_wanted`: whether the log is still owned here."""
        if not self._site or not ledgers:
            return
        self._queue.extend(_Errand(ledger, is_wanted) for ledger in ledgers)
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._work())

    async def stop(self) -> None:
        self._queue.clear()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _work(self) -> None:
        while self._queue:
            errand = self._current = self._queue.popleft()
            await asyncio.sleep(errand.due_at - asyncio.get_running_loop().time())
            if not errand.is_wanted():
                continue
            errand.tries += 1
            errand.times_home = errand.times_home + 1 if await self._try(errand.ledger) else 0
            if errand.times_home < 2 and errand.tries < _TRIES_MAX:
                errand.due_at = asyncio.get_running_loop().time() + _AGAIN_S
                self._queue.append(errand)
        self._task = None

    async def _try(self, ledger: int) -> bool:
        """Whether there is nothing left to do."""
        try:
            return await self._bring(ledger)
        except StoreError:
            return False
        except LedgerError:
            # It was deleted, or cannot be read: then it is no matter of sites.
            return True

    async def _bring(self, ledger: int) -> bool:
        metadata, _ = await self._records.load(ledger)
        moves = sum(len(segment.members) for segment in metadata.segments)
        for _ in range(moves):
            if metadata.state is not LedgerState.CLOSED:
                return False
            bookie = self._abroad(metadata)
            if bookie is None:
                # Of a bookie that is away the site is not known.
                return all(
                    name in self._pool.known for segment in metadata.segments for name in segment.members
                )
            if not self._has_room_for(metadata, bookie):
                return False
            outcome = await self._repair.move(ledger, bookie)
            if outcome.left:
                log.info("ledger %d stays at bookie %s for now: %s", ledger, bookie, outcome.left)
                return False
            metadata, _ = await self._records.load(ledger)
            if self._abroad(metadata) is None:
                self.ledgers_brought += 1
                log.info("ledger %d has come to site %s", ledger, self._site)
        return self._abroad(metadata) is None

    def _abroad(self, metadata: LedgerMetadata) -> str | None:
        """A member of another site."""
        members = (name for segment in metadata.segments for name in segment.members)
        return next((name for name in members if self._is_elsewhere(name)), None)

    def _is_elsewhere(self, bookie: str) -> bool:
        facts = self._pool.known.get(bookie)
        return facts is not None and bool(facts.site) and facts.site != self._site

    def _has_room_for(self, metadata: LedgerMetadata, bookie: str) -> bool:
        """Whether this site has a bookie to take its place in each segment."""
        own = {
            facts.name
            for facts in self._pool.known.values()
            if facts.site == self._site and not facts.is_read_only
        }
        return all(own - set(segment.members) for segment in metadata.segments if bookie in segment.members)

    async def _pause(self, copied_bytes: int) -> None:
        """So that copying takes no more than its share of disks and lines. Raises LedgerError to break it off."""
        self.bytes_copied += copied_bytes
        await asyncio.sleep(copied_bytes / self._pool.settings.copy_bytes_per_s)
        if self._current is not None and not self._current.is_wanted():
            raise LedgerError(self._current.ledger, "its log is no longer owned here")
