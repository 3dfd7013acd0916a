"""Faults of bookies, disks, links and metadata during writes."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from equipoise.errors import BadVersionError, DiskFailedError, LedgerError, NoNodeError, StoreError
from equipoise.lab.scenarios.scenario import Times
from equipoise.lab.simulation.disk import SimulatedDisk
from equipoise.ledger.metadata import ledger_path
from equipoise.ledger_client.repair import Repair, ledgers_on
from equipoise.store import MemoryStore, Tree
from equipoise.store.records.bookies import BookiesStore

if TYPE_CHECKING:
    from equipoise.lab.simulation.durable.world import DurableWorld

__all__ = ["DurableFaults"]

TREE = Tree()
_CAPACITY_BYTES = 200_000


class DurableFaults:
    """Draws faults from the seed and injects them; `heal` ends the faults that can end."""

    def __init__(self, world: DurableWorld) -> None:
        self._world = world
        self._sim = world.sim
        self._random = world.sim.random
        # The one bookie that may lose copies of acknowledged entries.
        self._victim = self._random.choice(sorted(world.bookies))
        self._cuts: list[tuple[str, str]] = []
        # The original disk after its replacement by an empty one.
        self._former_disk: SimulatedDisk | None = None
        # Only one damage to the metadata at a time.
        self._damaging = asyncio.Lock()

    async def play(self) -> None:
        scenario = self._world.scenario
        kinds: list[tuple[Times, Callable[[], Awaitable[None]]]] = [
            (scenario.power_cuts, self._cut_power),
            (scenario.crashes, self._crash_one),
            (scenario.losses, self._lose),
            (scenario.recoveries, self._recover),
            (scenario.cuts, self._cut),
            (scenario.slow_syncs, self._slow_down),
            (scenario.rots, self._rot),
            (scenario.emptied, self._empty),
            (scenario.lies, self._lie),
            (scenario.full, self._fill),
            (scenario.failed_syncs, self._fail_sync),
            (scenario.metadata_damages, self._damage_metadata),
            (scenario.deletions, self._delete),
            (scenario.repairs, self._repair),
        ]
        plan: list[tuple[float, Callable[[], Awaitable[None]]]] = []
        for (low, high), act in kinds:
            for _ in range(self._random.randint(low, high)):
                plan.append((self._random.random() * scenario.duration_s, act))
        async with asyncio.TaskGroup() as tasks:
            for at, act in plan:
                tasks.create_task(self._at(at, act))
            tasks.create_task(asyncio.sleep(scenario.duration_s))

    async def _at(self, seconds: float, act: Callable[[], Awaitable[None]]) -> None:
        await asyncio.sleep(seconds)
        await act()

    def heal(self) -> None:
        world = self._world
        for one, other in self._cuts:
            self._sim.heal(one, other)
        if self._former_disk is not None and self._victim in world.refused:
            # The operator reads why the bookie did not start, and restores the old disk.
            world.bookies[self._victim].crash()
            world.bookies[self._victim].disk = self._former_disk
        for name, host in world.bookies.items():
            host.disk.is_lying = False
            host.disk.capacity_bytes = None
            host.disk.sync_s_min, host.disk.sync_s_max = 0.0005, 0.008
            if not host.is_up and name not in world.gone:
                world.boot(name)

    # --- machines

    async def _cut_power(self) -> None:
        world = self._world
        world.count("power cut")
        for host in world.bookies.values():
            host.crash(silent=True)
        await asyncio.sleep(0.2 + self._random.random() * 0.5)
        for name in world.bookies:
            self._boot(name)

    async def _crash_one(self) -> None:
        name = self._random.choice(sorted(self._world.bookies))
        await self._crash(name, is_silent=self._random.random() < 0.5)

    async def _crash(self, name: str, *, is_silent: bool) -> None:
        self._world.bookies[name].crash(silent=is_silent)
        await asyncio.sleep(0.05 + self._random.random() * 0.5)
        self._boot(name)

    def _boot(self, name: str) -> None:
        if name not in self._world.gone and not self._world.bookies[name].is_up:
            self._world.boot(name)

    async def _lose(self) -> None:
        world = self._world
        world.count("bookie lost")
        world.copies_lost_max = 1
        world.gone.add(self._victim)
        world.bookies[self._victim].crash(silent=True)

    # --- disks

    async def _slow_down(self) -> None:
        disk = self._world.bookies[self._random.choice(sorted(self._world.bookies))].disk
        self._world.count("slow sync")
        disk.sync_s_min, disk.sync_s_max = 0.2, 1.5
        await asyncio.sleep(1.0)
        disk.sync_s_min, disk.sync_s_max = 0.0005, 0.008

    async def _rot(self) -> None:
        world, host = self._world, self._world.bookies[self._victim]
        world.copies_lost_max = 1
        segments = [name for name in host.disk.names() if name.startswith(("segment-", "index-"))]
        if not host.is_up or not segments:
            return
        # The current segment more often than others.
        newest = max(name for name in segments if name.startswith("segment-"))
        name = self._random.choice((newest, newest, self._random.choice(segments)))
        try:
            size = len(host.disk.read(name).rstrip(b"\0"))
        except DiskFailedError:
            return
        for _ in range(self._random.randint(1, 3)):
            offset = int(self._random.random() * size)
            if name.startswith("segment-") and self._random.random() < 0.3:
                host.disk.lose_sector(name, offset)
            elif size:
                host.disk.rot(name, offset)
        if self._random.random() < 0.7:
            await self._crash(self._victim, is_silent=False)

    async def _empty(self) -> None:
        world, host = self._world, self._world.bookies[self._victim]
        world.count("emptied disk")
        world.copies_lost_max = 1
        host.crash(silent=True)
        self._former_disk = host.disk
        host.disk = SimulatedDisk(host, self._sim.loop, self._sim.seed)
        await asyncio.sleep(0.2)
        self._boot(self._victim)
        # Until the bookie has failed to start.
        await asyncio.sleep(1.0)

    async def _lie(self) -> None:
        world = self._world
        world.copies_lost_max = 1
        world.bookies[self._victim].disk.is_lying = True
        await asyncio.sleep(0.3 + self._random.random())
        await self._crash(self._victim, is_silent=True)

    async def _fill(self) -> None:
        world = self._world
        disks = [host.disk for host in world.bookies.values()]
        for disk in disks[: self._random.choice((1, len(disks)))]:
            world.count("full disk")
            disk.capacity_bytes = _CAPACITY_BYTES
        await asyncio.sleep(1.0)
        for disk in disks:
            disk.capacity_bytes = None

    async def _fail_sync(self) -> None:
        self._world.bookies[self._random.choice(sorted(self._world.bookies))].disk.fail("sync")

    # --- links and other processes

    async def _cut(self) -> None:
        one = self._random.choice(["w1", "w2", "recoverer"])
        other = self._random.choice(sorted(self._world.bookies))
        self._sim.host(one)
        self._sim.cut(one, other, one_way=self._random.random() < 0.5)
        self._cuts.append((one, other))
        await asyncio.sleep(self._random.random() * 1.5)
        self._sim.heal(one, other)

    def _some_ledger(self) -> int | None:
        tracks = [track for track in self._world.history.ledgers if not track.is_deleted]
        return self._random.choice(tracks[-3:]).ledger if tracks else None

    async def _recover(self) -> None:
        """Two processes recover one ledger at about the same time."""
        ledger = self._some_ledger()
        if ledger is None:
            return
        self._world.count("recovery")
        for name in ("recoverer", "recoverer-2"):
            self._sim.host(name).spawn(self._recover_once(name, ledger))

    async def _recover_once(self, name: str, ledger: int) -> None:
        await asyncio.sleep(self._random.random() * 0.05)
        async with self._world.client(name) as ledgers:
            with contextlib.suppress(LedgerError, StoreError):
                end = await ledgers.recover(ledger)
                for track in self._world.history.ledgers:
                    if track.ledger == ledger:
                        track.ends.add(end)

    async def _damage_metadata(self) -> None:
        """Overwrite a node with garbage, or change the cluster's identity, and restore it after a while."""
        ledger = self._some_ledger()
        path = f"{TREE.ledgers}/INSTANCEID"
        if ledger is not None and self._random.random() < 0.5:
            path = f"{TREE.ledgers}/{ledger_path(ledger)}"
        async with self._damaging, contextlib.AsyncExitStack() as stack:
            store = await MemoryStore(self._world.tree).open()
            stack.push_async_callback(store.close)
            try:
                node = await store.get(path)
                damaged = await store.set(path, b"rubbish" + node.data[7:], version=node.version)
                self._world.count("damaged metadata")
                hidden = await self._hidden_ledgers(store) if "INSTANCEID" in path else {}
                await asyncio.sleep(1.0)
                for each, data in hidden.items():
                    await store.create(each, data)
                await store.set(path, node.data, version=damaged.version)
            except (BadVersionError, NoNodeError):
                return

    async def _hidden_ledgers(self, store: MemoryStore) -> dict[str, bytes]:
        """Remove the nodes of all ledgers, as in a store of another cluster. Returns their content."""
        found: dict[str, bytes] = {}
        for track in self._world.history.ledgers:
            path = f"{TREE.ledgers}/{ledger_path(track.ledger)}"
            node = await store.find(path)
            if node is not None and track.ends:
                found[path] = node.data
                await store.delete(path)
        return found

    async def _delete(self) -> None:
        tracks = [track for track in self._world.history.ledgers[:-2] if not track.is_deleted]
        if not tracks:
            return
        track = self._random.choice(tracks)
        track.is_deleted = True
        self._world.count("deletion")
        self._sim.host("operator").spawn(self._delete_once(track.ledger))

    async def _delete_once(self, ledger: int) -> None:
        async with self._world.client("operator") as ledgers:
            with contextlib.suppress(StoreError):
                await ledgers.delete(ledger)

    async def _repair(self) -> None:
        """Copy the ledgers of a lost bookie, or drain a running one."""
        name = next(iter(self._world.gone), self._random.choice(sorted(self._world.bookies)))
        self._world.count("repair")
        self._sim.host("operator").spawn(self._repair_once(name))

    async def _repair_once(self, name: str) -> None:
        async with self._world.client("operator") as ledgers:
            store = await MemoryStore(self._world.tree).open()
            bookies = BookiesStore(store, TREE)
            with contextlib.suppress(LedgerError, StoreError):
                await bookies.set_draining(name, is_draining=True)
                repair = Repair(ledgers.pool, ledgers.records, self._sim.host("operator").random)
                for metadata in [each async for each in ledgers_on(ledgers.records, name)]:
                    await repair.move(metadata.ledger, name)
            with contextlib.suppress(StoreError):
                await bookies.set_draining(name, is_draining=False)
            await store.close()
