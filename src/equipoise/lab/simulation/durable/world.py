"""Bookies, writers and a store under faults; then healing, and a read of all ledgers.

Two clients at a time recover each ledger and must read all acknowledged entries, which must be on enough disks after a
last power cut of all bookies.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Callable

from equipoise.bookie.bookie import Bookie, open_directory
from equipoise.bookie.manifest import load_manifest
from equipoise.bookie.settings import BookieSettings
from equipoise.disk import Disk
from equipoise.errors import (
    DamagedError,
    DiskFailedError,
    DiskFullError,
    EquipoiseError,
    LedgerError,
    SettingsError,
    StoreError,
)
from equipoise.lab.scenarios.durable import DurableScenario
from equipoise.lab.simulation.durable.faults import DurableFaults
from equipoise.lab.simulation.host import Host
from equipoise.lab.simulation.world import Simulation
from equipoise.lab.workload.history import History
from equipoise.lab.workload.log_history import LedgerTrack
from equipoise.ledger.entry import decode_entry
from equipoise.ledger.quorum import Quorum
from equipoise.ledger.registration import BookieFacts
from equipoise.ledger.wire import Flag, ReadRequest, decode_answer
from equipoise.ledger_client.bookie_pool import ReplicationSettings
from equipoise.ledger_client.ledgers import BookieLedgers
from equipoise.store import MemoryStoreServer, MemoryTree, RemoteMemoryStore, StoreSettings, Tree

__all__ = ["CLIENT_SETTINGS", "DurableWorld", "keep_bookie"]

STORE, STORE_PORT, BOOKIE_PORT = "store", 2181, 3181
TREE = Tree()
SESSIONS = StoreSettings(session_timeout_s=2.0, request_timeout_s=1.0)
# Small, so that bookies roll, fill and compact segments within a run.
BOOKIE_SETTINGS = BookieSettings(
    segment_bytes=64 * 1024,
    segment_entries_max=100,
    room_interval_s=0.1,
    collection_interval_s=0.4,
    queue_bytes_max=1024 * 1024,
    compaction_bytes_per_s=10_000_000,
)
CLIENT_SETTINGS = ReplicationSettings(
    answer_timeout_s=0.5, connect_timeout_s=0.5, retry_s=0.05, append_timeout_s=2.0, copy_bytes_per_s=20_000.0
)
RETRY_S = 0.1
# Appends of one writer in flight.
WINDOW = 4
PATIENCE_S = 30.0


class DurableWorld:
    """The components of one run."""

    def __init__(self, sim: Simulation, scenario: DurableScenario, history: History) -> None:
        self.sim = sim
        self.scenario = scenario
        self.history = history
        self.tree = MemoryTree(sim.loop.time)
        self.store_host = sim.host(STORE)
        self.bookies: dict[str, Host] = {
            f"b{number}": sim.host(f"b{number}") for number in range(1, scenario.bookies + 1)
        }
        # Bookies that are lost for good.
        self.gone: set[str] = set()
        # By bookie, the reason why it did not start.
        self.refused: dict[str, str] = {}
        self.copies_lost_max = 0
        self.is_over = False
        self._fired: Counter[str] = Counter()

    def fired(self) -> Counter[str]:
        return self._fired + Counter({name: count for name, count in self.sim.faults.items() if count})

    def count(self, fault: str) -> None:
        self._fired[fault] += 1

    # --- the programs

    def boot(self, name: str) -> None:
        """Start the bookie, or restart it after a crash."""
        host = self.bookies[name]
        if not host.is_up:
            host.restart()
        host.disk.sync_s_min, host.disk.sync_s_max = 0.0005, 0.008
        host.spawn(self._bookie(name, host), name=name)

    async def _bookie(self, name: str, host: Host) -> None:
        await keep_bookie(name, host, self.refused, self.count)

    async def _writer(self, name: str) -> None:
        """Append to a ledger, and to a new ledger after a failure."""
        async with self.client(name) as ledgers:
            number = 0
            while not self.is_over:
                try:
                    ledger = await ledgers.create(name.encode(), number, Quorum(*self.scenario.quorum))
                except (LedgerError, StoreError):
                    await asyncio.sleep(RETRY_S)
                    continue
                track = LedgerTrack(name, ledger.ledger, self.scenario.quorum[2])
                self.history.ledgers.append(track)
                number += 1
                quota = self.sim.random.choice((10, 40, 10_000))
                while ledger.failed is None and not self.is_over and len(track.appended) < quota:
                    while ledger.failed is None and ledger.in_flight < WINDOW:
                        self._append(ledger, track)
                    await asyncio.sleep(self.sim.random.random() * 0.05)
                if ledger.failed is None and self.sim.random.random() < 0.5:
                    with contextlib.suppress(LedgerError):
                        track.ends.add(await ledger.close())

    def _append(self, ledger: object, track: LedgerTrack) -> None:
        payload = f"{track.name}-{track.ledger}-{len(track.appended)}-".encode()
        payload += b"x" * int(self.sim.random.random() * 600)

        def complete(outcome: int | LedgerError) -> None:
            if isinstance(outcome, int):
                track.acknowledged.add(outcome)

        entry = ledger.append(payload, complete)  # type: ignore[attr-defined]  # an OpenLedger
        track.appended[entry] = payload

    @contextlib.asynccontextmanager
    async def client(self, name: str) -> AsyncIterator[BookieLedgers]:
        """A client of bookies on the current host."""
        store = await open_store()
        ledgers = BookieLedgers(store, TREE, self.sim.host(name).random, settings=CLIENT_SETTINGS)
        while True:
            try:
                await ledgers.start()
                break
            except StoreError:
                await asyncio.sleep(RETRY_S)
        try:
            yield ledgers
        finally:
            await ledgers.close()
            await store.close()

    # --- the run

    async def play(self) -> None:
        sim, scenario = self.sim, self.scenario
        self.store_host.spawn(MemoryStoreServer(self.tree, host="0.0.0.0", port=STORE_PORT).start())
        for name in self.bookies:
            self.boot(name)
        writers = [f"w{number}" for number in range(1, scenario.writers + 1)]
        for name in writers:
            sim.host(name).spawn(self._writer(name), name=name)
        await asyncio.sleep(0.5)
        faults = DurableFaults(self)
        await faults.play()
        self.is_over = True
        for name in writers:
            # Half of the writers crash with appends in flight, the others wait for their replies.
            if sim.random.random() < 0.5 and not scenario.lies[1]:
                sim.host(name).crash()
        faults.heal()
        await asyncio.sleep(3.0)
        await self._read_back()
        await self._look_at_disks()

    async def _read_back(self) -> None:
        done = [self.sim.host(name).spawn(self._reader(name), name=name) for name in ("reader-1", "reader-2")]
        await asyncio.wait(done)

    async def _reader(self, name: str) -> None:
        async with self.client(name) as ledgers:
            for track in self.history.ledgers:
                if not track.is_deleted:
                    await self._read_ledger(ledgers, track)
            await self._go_on(ledgers, name)

    async def _read_ledger(self, ledgers: BookieLedgers, track: LedgerTrack) -> None:
        deadline = self.sim.now + PATIENCE_S
        while True:
            try:
                end = await ledgers.recover(track.ledger)
                track.ends.add(end)
                entry = 0
                while entry <= end:
                    for payload in await ledgers.read(track.ledger, entry, end):
                        track.found[entry] = payload
                        entry += 1
                return
            except (LedgerError, StoreError) as error:
                if self.sim.now > deadline or isinstance(error, DamagedError):
                    track.problems.append(f"cannot be read back: {error}")
                    return
                await asyncio.sleep(RETRY_S)

    async def _go_on(self, ledgers: BookieLedgers, name: str) -> None:
        """Check progress after healing."""
        deadline = self.sim.now + PATIENCE_S
        while True:
            with contextlib.suppress(LedgerError, StoreError):
                ledger = await ledgers.create(name.encode(), 0, Quorum(*self.scenario.quorum))
                await ledger.close()
                return
            if self.sim.now > deadline:
                track = LedgerTrack(name, 0, 1, problems=["no ledger can be created after healing"])
                self.history.ledgers.append(track)
                return
            await asyncio.sleep(RETRY_S)

    async def _look_at_disks(self) -> None:
        """Cut the power of all bookies, and count valid copies on their disks without any program."""
        for host in self.bookies.values():
            host.crash(silent=True)
        for name, host in self.bookies.items():
            if name in self.gone or name in self.refused:
                continue
            host.restart()
            host.call(self._count_copies, host.disk)
        for track in self.history.ledgers:
            track.copies_lost_max = self.copies_lost_max

    def _count_copies(self, disk: Disk) -> None:
        try:
            manifest = load_manifest(disk)
            if manifest is None:
                return
            engine = open_directory(disk, manifest, BOOKIE_SETTINGS)
        except DamagedError:
            # A bookie would not start on this disk either, so it has no copies.
            return
        for track in self.history.ledgers:
            for entry, payload in track.appended.items():
                frame = engine.submit(None, ReadRequest(track.ledger, entry, None, Flag(0)))
                assert frame is not None, "the engine answers plain reads at once"
                body = getattr(decode_answer(frame[4:]), "body", b"")
                if body and decode_entry(body, ledger=track.ledger, entry=entry).payload == payload:
                    track.copies[entry] = track.copies.get(entry, 0) + 1


async def open_store() -> RemoteMemoryStore:
    while True:
        try:
            return await RemoteMemoryStore(STORE, STORE_PORT, SESSIONS).open()
        except StoreError:
            await asyncio.sleep(RETRY_S)


async def keep_bookie(
    name: str, host: Host, refused: dict[str, str], count: Callable[[str], None], site: str = ""
) -> None:
    """Run a bookie and restart it when it ends, as a supervisor does."""
    while True:
        store = await open_store()
        facts = BookieFacts(name=name, host=name, port=BOOKIE_PORT, rack=name, site=site)
        bookie = Bookie(facts, host.disk, store, TREE, host.random, BOOKIE_SETTINGS)
        try:
            await bookie.start(listen_host="0.0.0.0")
            refused.pop(name, None)
            await bookie.run()
        except SettingsError as error:
            refused[name] = str(error)
        except (DiskFailedError, DiskFullError, StoreError) as error:
            count(f"bookie ended: {type(error).__name__}")
        with contextlib.suppress(EquipoiseError):
            await store.close()
        await asyncio.sleep(RETRY_S)
