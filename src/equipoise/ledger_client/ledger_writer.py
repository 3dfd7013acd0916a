"""Execute the pure writer of an open ledger, over connections and the store."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from functools import partial

from equipoise.errors import (
    BadVersionError,
    ClosedError,
    DisconnectedError,
    LedgerError,
    LimitError,
    StoreError,
)
from equipoise.ledger.effects import Acknowledge, Add, Effect, FailureReason, LedgerFailed, SetMetadata
from equipoise.ledger.entry import PAYLOAD_BYTES_MAX, ledger_key
from equipoise.ledger.log import Completion
from equipoise.ledger.metadata import LedgerMetadata
from equipoise.ledger.wire import Code
from equipoise.ledger.writer import LedgerWriter, Replacement
from equipoise.ledger_client.bookie_pool import BookiePool
from equipoise.store.records.ledgers import LedgersStore

__all__ = ["BookieLedger"]


class BookieLedger:
    """Implements `OpenLedger`. Its creator appends the header before it hands the ledger on."""

    def __init__(
        self,
        pool: BookiePool,
        ledgers: LedgersStore,
        metadata: LedgerMetadata,
        version: int,
        replacement: Replacement,
    ) -> None:
        self.ledger = metadata.ledger
        self.failed: LedgerError | None = None
        self._pool = pool
        self._ledgers = ledgers
        self._key = ledger_key(metadata.password)
        self._version = version
        self._writer = LedgerWriter(metadata, replacement)
        self._completions: dict[int, Completion] = {}
        # Members whose last reply was a failure, and the identity of each member's data, by name.
        self._lost: set[str] = set()
        self._directories: dict[str, str] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._over = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._progress_at = self._loop.time()
        self._tick: asyncio.TimerHandle | None = None
        self._remember_members()

    # --- the contract

    @property
    def confirmed(self) -> int:
        return self._writer.confirmed

    @property
    def in_flight(self) -> int:
        return len(self._completions)

    @property
    def current_metadata(self) -> LedgerMetadata:
        return self._writer.metadata

    def append(self, payload: bytes, completion: Completion) -> int:
        if self.failed is not None:
            raise self.failed
        if len(payload) > PAYLOAD_BYTES_MAX:
            raise LimitError(
                f"an entry of {len(payload)} bytes; at most {PAYLOAD_BYTES_MAX} fit into a frame"
            )
        if not self._completions:
            self._progress_at = self._loop.time()
        try:
            number, adds = self._writer.append(payload)
        except ClosedError as error:
            raise LedgerError(self.ledger, FailureReason.CLOSED) from error
        self._completions[number] = completion
        for add in adds:
            self._add_now(add)
        if self._tick is None:
            self._tick = self._loop.call_later(self._pool.settings.retry_s, self._look_after)
        return number

    async def close(self) -> int:
        if self.failed is None:
            self._carry_out(self._writer.close())
            await self._over.wait()
        if self.failed is not None and self.failed.reason != FailureReason.CLOSED:
            raise self.failed
        return self.confirmed

    # --- effects

    def _carry_out(self, effects: Iterable[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Acknowledge):
                self._progress_at = self._loop.time()
                completion = self._completions.pop(effect.entry, None)
                if completion is not None:
                    completion(effect.entry)
            elif isinstance(effect, Add):
                self._add(effect)
            elif isinstance(effect, SetMetadata):
                self._spawn(self._set(effect.metadata))
            elif isinstance(effect, LedgerFailed):
                self._end(effect.reason)

    def _add(self, effect: Add) -> None:
        if effect.delay_s:
            self._loop.call_later(effect.delay_s, self._add_now, effect)
        else:
            self._add_now(effect)

    def _add_now(self, effect: Add) -> None:
        if self.failed is not None:
            return
        bookie, entry = effect.bookie, effect.entry
        link = self._pool.open_link(bookie)
        if link is None:
            self._spawn(self._connect_and_add(effect))
            return
        if not self._is_same(bookie):
            # Another bookie under the name of the member: it does not have the member's entries.
            self._loop.call_soon(self._bookie_lost, bookie)
            return
        link.add(self.ledger, entry, self._key, effect.body, partial(self._answered, bookie, entry))

    async def _connect_and_add(self, effect: Add) -> None:
        try:
            await self._pool.link(effect.bookie)
        except DisconnectedError:
            self._bookie_lost(effect.bookie)
            return
        self._add_now(effect)

    def _answered(self, bookie: str, entry: int, code: Code) -> None:
        if self.failed is not None:
            return
        if code is Code.OK or code is Code.BUSY:
            self._carry_out(self._writer.add_answered(bookie, entry, code))
            return
        if bookie in self._writer.members:
            self._lost.add(bookie)
        if code is Code.UNKNOWN:
            self._carry_out(self._writer.bookie_lost(bookie))
        else:
            self._carry_out(self._writer.add_answered(bookie, entry, code))

    def _bookie_lost(self, bookie: str) -> None:
        if self.failed is None:
            self._lost.add(bookie)
            self._carry_out(self._writer.bookie_lost(bookie))

    async def _set(self, metadata: LedgerMetadata) -> None:
        """Write the node until the outcome is known."""
        while self.failed is None:
            try:
                self._version = await self._ledgers.set(metadata, self._version)
                effects = self._writer.metadata_set()
            except BadVersionError:
                try:
                    found, self._version = await self._ledgers.load(self.ledger)
                except LedgerError:
                    self._end(FailureReason.DELETED)
                    return
                except StoreError:
                    await asyncio.sleep(self._pool.settings.retry_s)
                    continue
                effects = self._writer.metadata_conflict(found)
            except LedgerError:
                self._end(FailureReason.DELETED)
                return
            except StoreError:
                await asyncio.sleep(self._pool.settings.retry_s)
                continue
            self._remember_members()
            self._carry_out(effects)
            return

    # --- members

    def _remember_members(self) -> None:
        """The identity of each member's data, from when it became a member."""
        for member in self._writer.members:
            facts = self._pool.known.get(member)
            if member not in self._directories and facts is not None:
                self._directories[member] = facts.directory

    def _is_same(self, bookie: str) -> bool:
        facts = self._pool.known.get(bookie)
        return facts is not None and self._directories.setdefault(bookie, facts.directory) == facts.directory

    def _look_after(self) -> None:
        """Try lost members again, and fail after a time without progress."""
        self._tick = None
        if self.failed is not None:
            return
        settings = self._pool.settings
        if self._completions and self._loop.time() - self._progress_at > settings.append_timeout_s:
            self._end(FailureReason.TOO_FEW)
            return
        for bookie in sorted(self._lost):
            self._spawn(self._try_again(bookie))
        if self._completions or self._lost:
            self._tick = self._loop.call_later(settings.retry_s, self._look_after)

    async def _try_again(self, bookie: str) -> None:
        try:
            await self._pool.link(bookie)
        except DisconnectedError:
            return
        if self.failed is None and bookie in self._lost and self._is_same(bookie):
            self._lost.discard(bookie)
            self._carry_out(self._writer.bookie_back(bookie))

    # --- the end

    def _end(self, reason: FailureReason) -> None:
        if self.failed is not None:
            return
        self.failed = LedgerError(self.ledger, reason)
        waiting, self._completions = self._completions, {}
        for completion in waiting.values():
            completion(self.failed)
        self._over.set()

    async def abandon(self) -> None:
        """Stop: the process ends. Recovery settles the entries in flight."""
        self._end(FailureReason.CLOSED)
        if self._tick is not None:
            self._tick.cancel()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _spawn(self, work: object) -> None:
        task: asyncio.Task[None] = self._loop.create_task(work)  # type: ignore[arg-type]
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
