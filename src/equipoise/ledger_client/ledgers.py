"""All ledgers of a region, on bookies and the store."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from random import Random

from equipoise.errors import LedgerError, StoreError
from equipoise.ledger.effects import FailureReason
from equipoise.ledger.log import EPOCH_KEY, READ_BYTES_MAX, TOPIC_KEY, OpenLedger
from equipoise.ledger.metadata import LedgerMetadata, LedgerState, Segment
from equipoise.ledger.placement import place_ensemble, replacement_for
from equipoise.ledger.quorum import Quorum
from equipoise.ledger_client.bookie_pool import BookieAccess, BookiePool, ReplicationSettings
from equipoise.ledger_client.ledger_reader import read_confirmed, read_entries
from equipoise.ledger_client.ledger_recovery import recover_ledger
from equipoise.ledger_client.ledger_relocation import LedgerRelocation
from equipoise.ledger_client.ledger_writer import BookieLedger
from equipoise.store.contract import Store
from equipoise.store.records.bookies import BookiesStore
from equipoise.store.records.ledgers import LedgersStore
from equipoise.store.tree import Tree

__all__ = ["BookieLedgers"]

log = logging.getLogger("equipoise.ledger_client")

# Closed ledgers whose metadata is cached. Only re-replication changes it.
_REMEMBERED = 1_000
_SEEN = 100
_PASSWORD_BYTES = 16


class BookieLedgers:
    """Implements `Ledgers`. One per process. Call `start` before use and `close` at the end."""

    # The remedy for too few bookies.
    more_bookies = "start more with `equipoise bookie`"

    def __init__(
        self,
        store: Store,
        tree: Tree,
        random: Random,
        *,
        site: str = "",
        settings: ReplicationSettings | None = None,
        access: BookieAccess | None = None,
    ) -> None:
        self.pool = BookiePool(BookiesStore(store, tree), settings, access)
        self.records = LedgersStore(store, tree)
        self._random = random
        self._site = site
        self.ledger_relocation = LedgerRelocation(self.pool, self.records, random, site)
        self._closed: OrderedDict[int, LedgerMetadata] = OrderedDict()
        self._open: dict[int, BookieLedger] = {}
        # Cached metadata of open ledgers of other hubs that are about to release them.
        self._seen: OrderedDict[int, LedgerMetadata] = OrderedDict()

    async def start(self) -> None:
        await self.pool.start()

    async def close(self) -> None:
        """Close all connections. Open ledgers stay open in the store: their next owner recovers them."""
        await self.ledger_relocation.stop()
        for ledger in list(self._open.values()):
            await ledger.abandon()
        await self.pool.close()

    # --- the contract

    async def create(self, topic: bytes, epoch: int, quorum: Quorum) -> OpenLedger:
        placement = place_ensemble(
            self.pool.known, quorum.ensemble, site=self._site, draw=self._random.random
        )
        if placement is None:
            writable = sum(not facts.is_read_only for facts in self.pool.known.values())
            raise LedgerError(
                0,
                f"{FailureReason.TOO_FEW}: {quorum} needs {quorum.ensemble} writable bookies, "
                f"there are {writable}{self._shortage()}",
            )
        for compromise in placement.compromises:
            log.warning("topic %s: %s", topic.decode(errors="replace"), compromise)
        metadata = LedgerMetadata(
            await self.records.new_id(),
            quorum,
            (Segment(0, placement.members),),
            self._random.randbytes(_PASSWORD_BYTES),
            token=self._random.getrandbits(62),
            custom=((TOPIC_KEY, topic), (EPOCH_KEY, str(epoch).encode())),
        )
        version = await self.records.create(metadata)
        ledger = BookieLedger(self.pool, self.records, metadata, version, self._replacement)
        self._open = {number: each for number, each in self._open.items() if each.failed is None}
        self._open[ledger.ledger] = ledger
        await self._write_header(ledger, topic, epoch)
        return ledger

    def _shortage(self) -> str:
        """Which bookies accept no entries, and the remedy."""
        refusing = [
            f"{name} is read-only with {facts.free_bytes / 1e9:.1f} GB free"
            for name, facts in sorted(self.pool.known.items())
            if facts.is_read_only
        ]
        if not refusing:
            return f": {self.more_bookies}"
        return f" ({', '.join(refusing)}): free space on the disk, or {self.more_bookies}"

    async def recover(self, ledger: int) -> int:
        try:
            metadata = await recover_ledger(self.pool, self.records, ledger, self._replacement)
        except LedgerError as problem:
            if problem.reason != FailureReason.TOO_FEW:
                raise
            raise LedgerError(ledger, f"{problem.reason}{self._shortage()}") from problem
        self._remember(metadata)
        return metadata.last

    async def confirmed(self, ledger: int) -> int:
        metadata, _ = await self.records.load(ledger)
        if metadata.state is LedgerState.CLOSED:
            self._remember(metadata)
            return metadata.last
        # For the reads that follow. If a member is replaced meanwhile, they load the metadata again.
        self._seen[ledger] = metadata
        while len(self._seen) > _SEEN:
            self._seen.popitem(last=False)
        return await read_confirmed(self.pool, metadata)

    async def read(
        self, ledger: int, first: int, last: int, *, bytes_max: int = READ_BYTES_MAX
    ) -> list[bytes]:
        metadata = self._seen.get(ledger) or await self.metadata(ledger)
        try:
            return await read_entries(self.pool, metadata, first, last, bytes_max=bytes_max)
        except LedgerError:
            # Re-replication or the writer may have moved the entries.
            self._closed.pop(ledger, None)
            self._seen.pop(ledger, None)
            again = await self.metadata(ledger)
            if again.segments == metadata.segments:
                raise
            return await read_entries(self.pool, again, first, last, bytes_max=bytes_max)

    async def metadata(self, ledger: int) -> LedgerMetadata:
        known = self._closed.get(ledger)
        if known is not None:
            self._closed.move_to_end(ledger)
            return known
        mine = self._open.get(ledger)
        if mine is not None and mine.failed is None:
            return mine.current_metadata
        metadata, _ = await self.records.load(ledger)
        self._remember(metadata)
        return metadata

    async def delete(self, ledger: int) -> None:
        self._closed.pop(ledger, None)
        self._seen.pop(ledger, None)
        await self.records.delete(ledger)

    def relocate(self, ledgers: Sequence[int], is_wanted: Callable[[], bool]) -> None:
        self.ledger_relocation.add(ledgers, is_wanted)

    # --- inside

    async def _write_header(self, ledger: BookieLedger, topic: bytes, epoch: int) -> None:
        written: asyncio.Future[int | LedgerError] = asyncio.get_running_loop().create_future()

        def complete(outcome: int | LedgerError) -> None:
            if not written.done():
                written.set_result(outcome)

        ledger.append(b"%d\n%s" % (epoch, topic), complete)
        outcome = await written
        if isinstance(outcome, LedgerError):
            with suppress(StoreError):
                await self.records.delete(ledger.ledger)
            raise outcome

    def _replacement(self, excluded: Collection[str]) -> str | None:
        return replacement_for(self.pool.known, excluded, site=self._site, draw=self._random.random)

    def _remember(self, metadata: LedgerMetadata) -> None:
        if metadata.state is LedgerState.CLOSED:
            self._seen.pop(metadata.ledger, None)
            self._closed[metadata.ledger] = metadata
            while len(self._closed) > _REMEMBERED:
                self._closed.popitem(last=False)
