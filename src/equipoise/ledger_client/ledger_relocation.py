"""Copy closed ledgers of a log to the site of its owner, at a bounded pace.

When the owner of a log changes sites, the log continues at once in a ledger at the new site. Earlier ledgers are read
from the old site, and would be lost with it, until they have been copied. One ledger is copied after the other; each
member at another site is replaced by a bookie of this site, as `Repair` replaces a drained one.

Always true:
    a member is replaced only after the new member has every entry of the old one;
    if this site has no bookie to replace a member, the member stays.
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

# Maximum attempts per ledger, and the delay after a failed one, in seconds: a bookie may be temporarily unavailable.
_TRIES_MAX = 100
_AGAIN_S = 1.0


class _Job:
    """A ledger to copy."""

    __slots__ = ("checks_passed", "due_at", "is_wanted", "ledger", "tries")

    def __init__(self, ledger: int, is_wanted: Callable[[], bool]) -> None:
        self.ledger = ledger
        self.is_wanted = is_wanted
        self.due_at = 0.0
        self.tries = 0
        # Successive checks without a remote member. Two are needed: the previous owner may have finished a copy to its
        # own site after the first.
        self.checks_passed = 0


class LedgerRelocation:
    """Owned by the ledgers of one process. Call `stop` at the end."""

    def __init__(self, pool: BookiePool, records: LedgersStore, random: Random, site: str) -> None:
        self._pool = pool
        self._records = records
        self._site = site
        self._repair = Repair(pool, records, random, site=site, pace=self._pause)
        self._queue: deque[_Job] = deque()
        self._current: _Job | None = None
        self._task: asyncio.Task[None] | None = None
        self.ledgers_relocated = 0
        self.bytes_copied = 0

    def add(self, ledgers: Sequence[int], is_wanted: Callable[[], bool]) -> None:
        """Queue ledgers for copying. `is_wanted`: whether the log is still owned here."""
        if not self._site or not ledgers:
            return
        self._queue.extend(_Job(ledger, is_wanted) for ledger in ledgers)
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._work())

    async def stop(self) -> None:
        self._queue.clear()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _work(self) -> None:
        while self._queue:
            job = self._current = self._queue.popleft()
            await asyncio.sleep(job.due_at - asyncio.get_running_loop().time())
            if not job.is_wanted():
                continue
            job.tries += 1
            job.checks_passed = job.checks_passed + 1 if await self._try(job.ledger) else 0
            if job.checks_passed < 2 and job.tries < _TRIES_MAX:
                job.due_at = asyncio.get_running_loop().time() + _AGAIN_S
                self._queue.append(job)
        self._task = None

    async def _try(self, ledger: int) -> bool:
        """Whether the ledger needs no further copies."""
        try:
            return await self._relocate(ledger)
        except StoreError:
            return False
        except LedgerError:
            # The ledger was deleted or cannot be read: there is nothing to copy.
            return True

    async def _relocate(self, ledger: int) -> bool:
        metadata, _ = await self._records.load(ledger)
        moves = sum(len(segment.members) for segment in metadata.segments)
        for _ in range(moves):
            if metadata.state is not LedgerState.CLOSED:
                return False
            bookie = self._remote_member(metadata)
            if bookie is None:
                # The site of an unregistered bookie is unknown.
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
            if self._remote_member(metadata) is None:
                self.ledgers_relocated += 1
                log.info("ledger %d was copied to site %s", ledger, self._site)
        return self._remote_member(metadata) is None

    def _remote_member(self, metadata: LedgerMetadata) -> str | None:
        """A member at another site."""
        members = (name for segment in metadata.segments for name in segment.members)
        return next((name for name in members if self._is_remote(name)), None)

    def _is_remote(self, bookie: str) -> bool:
        facts = self._pool.known.get(bookie)
        return facts is not None and bool(facts.site) and facts.site != self._site

    def _has_room_for(self, metadata: LedgerMetadata, bookie: str) -> bool:
        """Whether this site has a bookie to replace it in each segment."""
        own = {
            facts.name
            for facts in self._pool.known.values()
            if facts.site == self._site and not facts.is_read_only
        }
        return all(own - set(segment.members) for segment in metadata.segments if bookie in segment.members)

    async def _pause(self, copied_bytes: int) -> None:
        """Limit the rate of the copy. Raises LedgerError to abort it."""
        self.bytes_copied += copied_bytes
        await asyncio.sleep(copied_bytes / self._pool.settings.copy_bytes_per_s)
        if self._current is not None and not self._current.is_wanted():
            raise LedgerError(self._current.ledger, "its log is no longer owned here")
