"""Execute the pure recovery of a ledger, over connections and the store."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from equipoise.errors import BadVersionError, DisconnectedError, LedgerError
from equipoise.ledger.effects import (
    Add,
    Effect,
    FailureReason,
    Fence,
    LedgerFailed,
    Recovered,
    RecoveryRead,
    SetMetadata,
)
from equipoise.ledger.entry import ledger_key
from equipoise.ledger.metadata import LedgerMetadata
from equipoise.ledger.recovery import LedgerRecovery
from equipoise.ledger.wire import LAST_ENTRY, Code, Flag
from equipoise.ledger.writer import BUSY_DELAY_S, Replacement
from equipoise.ledger_client.bookie_pool import BookiePool
from equipoise.store.records.ledgers import LedgersStore

__all__ = ["recover_ledger"]

# Attempts: a recovery starts again if the segments changed.
_ATTEMPTS = 5


async def recover_ledger(
    pool: BookiePool, ledgers: LedgersStore, ledger: int, replacement: Replacement
) -> LedgerMetadata:
    """The metadata of the closed ledger. Raises LedgerError, StoreError."""
    for _ in range(_ATTEMPTS):
        metadata, version = await ledgers.load(ledger)
        attempt = _Attempt(pool, ledgers, metadata, version, replacement)
        outcome = await attempt.run()
        if isinstance(outcome, Recovered):
            return outcome.metadata
        if outcome.reason is not FailureReason.METADATA:
            raise LedgerError(ledger, outcome.reason)
    raise LedgerError(ledger, FailureReason.METADATA)


class _Attempt:
    """One attempt of a recovery."""

    def __init__(
        self,
        pool: BookiePool,
        ledgers: LedgersStore,
        metadata: LedgerMetadata,
        version: int,
        replacement: Replacement,
    ) -> None:
        self._pool = pool
        self._ledgers = ledgers
        self._ledger = metadata.ledger
        self._key = ledger_key(metadata.password)
        self._version = version
        self._recovery = LedgerRecovery(metadata, replacement)
        self._tasks: set[asyncio.Task[list[Effect]]] = set()

    async def run(self) -> Recovered | LedgerFailed:
        self._begin(self._recovery.start())
        outcome = self._over
        try:
            while outcome is None:
                done, _ = await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    self._tasks.discard(task)
                    self._begin(task.result())
                outcome = self._over
            return outcome
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    _over: Recovered | LedgerFailed | None = None

    def _begin(self, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Recovered | LedgerFailed):
                self._over = effect
            else:
                work: Coroutine[Any, Any, list[Effect]]
                if isinstance(effect, SetMetadata):
                    work = self._set(effect.metadata)
                elif isinstance(effect, Fence):
                    work = self._fence(effect)
                elif isinstance(effect, RecoveryRead):
                    work = self._read(effect)
                elif isinstance(effect, Add):
                    work = self._add(effect)
                else:
                    raise AssertionError(f"{effect} is no effect of a recovery")
                self._tasks.add(asyncio.create_task(work))

    async def _set(self, metadata: LedgerMetadata) -> list[Effect]:
        try:
            self._version = await self._ledgers.set(metadata, self._version)
        except BadVersionError:
            found, self._version = await self._ledgers.load(self._ledger)
            return self._recovery.metadata_conflict(found)
        return self._recovery.metadata_set()

    async def _fence(self, effect: Fence) -> list[Effect]:
        try:
            link = await self._pool.link(effect.bookie)
        except DisconnectedError:
            return self._recovery.bookie_lost(effect.bookie)
        answer = await link.read(self._ledger, LAST_ENTRY, key=self._key, flags=Flag.FENCE)
        await self._wait_if_busy(answer.code)
        if answer.code is Code.UNKNOWN:
            return self._recovery.bookie_lost(effect.bookie)
        return self._recovery.fence_answered(effect.bookie, answer.code, answer.body)

    async def _read(self, effect: RecoveryRead) -> list[Effect]:
        try:
            link = await self._pool.link(effect.bookie)
        except DisconnectedError:
            return self._recovery.bookie_lost(effect.bookie)
        flags = Flag.FENCE | Flag.HIGH_PRIORITY
        answer = await link.read(self._ledger, effect.entry, key=self._key, flags=flags)
        await self._wait_if_busy(answer.code)
        return self._recovery.read_answered(effect.bookie, effect.entry, answer.code, answer.body)

    async def _add(self, effect: Add) -> list[Effect]:
        await asyncio.sleep(effect.delay_s)
        try:
            link = await self._pool.link(effect.bookie)
        except DisconnectedError:
            return self._recovery.bookie_lost(effect.bookie)
        answered: asyncio.Future[Code] = asyncio.get_running_loop().create_future()

        def set_answer(code: Code) -> None:
            if not answered.done():
                answered.set_result(code)

        flags = Flag.RECOVERY | Flag.HIGH_PRIORITY
        link.add(self._ledger, effect.entry, self._key, effect.body, set_answer, flags)
        return self._recovery.add_answered(effect.bookie, effect.entry, await answered)

    async def _wait_if_busy(self, code: Code) -> None:
        if code is Code.BUSY:
            await asyncio.sleep(BUSY_DELAY_S)
