"""A bookie whose disk has no room for another segment: it is read-only, and does not use the remaining room."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random

import pytest

from bookie.rig import SMALL, Rig
from equipoise.bookie.bookie import Bookie
from equipoise.bookie.manifest import MANIFEST, segment_name
from equipoise.bookie.settings import BookieSettings
from equipoise.disk import DirectoryDisk
from equipoise.disk.contract import DiskRoom, File, FixedFile
from equipoise.errors import DiskFullError, LedgerError
from equipoise.ledger.log import OpenLedger
from equipoise.ledger.quorum import Quorum
from equipoise.ledger.registration import BookieFacts
from equipoise.ledger.wire import Code
from equipoise.ledger_client.bookie_pool import ReplicationSettings
from equipoise.ledger_client.ledgers import BookieLedgers
from equipoise.store import MemoryStoreServer, MemoryTree, Tree, open_store
from hub.live import on_uvloop
from support.polling import until

ONE = Quorum(1, 1, 1)
# What cannot be stored is given up soon.
BRIEF = ReplicationSettings(append_timeout_s=0.5)


class SmallDisk(DirectoryDisk):
    """A directory on a disk with room for one segment and a half."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.free_bytes = SMALL.segment_bytes + SMALL.segment_bytes // 2
        self.allocations = 0
        self.looks = 0

    def room(self) -> DiskRoom:
        self.looks += 1
        # Never so full that the share in use alone would make the bookie read-only.
        return DiskRoom(self.free_bytes, 2 * self.free_bytes)

    def allocate(self, name: str, size: int) -> FixedFile:
        self.allocations += 1
        if size > self.free_bytes:
            raise DiskFullError(f"the disk is full: cannot allocate {name}")
        self.free_bytes -= size
        return super().allocate(name, size)


class FullDisk(DirectoryDisk):
    """A directory on a disk on which for a while nothing new can be written, but for segments and their indexes."""

    is_full = False

    def open(self, name: str) -> File:
        if self.is_full and name.startswith(MANIFEST):
            raise DiskFullError(f"the disk is full: cannot write {name}")
        return super().open(name)


def test_entries_that_follow_a_full_disk_are_there_after_a_restart(tmp_path: Path) -> None:
    """1. The next segment is allocated. 2. The disk is too full to list it. 3. There is room again."""
    disk = FullDisk(tmp_path)
    rig, entries = Rig(disk), 0
    while rig.engine.segments.has_room(3000):
        assert rig.add(7, entries, bytes(1000)) == Code.OK
        entries += 1
    disk.is_full = True
    with pytest.raises(DiskFullError):
        rig.engine.segments.roll()
    disk.is_full = False
    for _ in range(20):
        assert rig.add(7, entries, bytes(1000)) == Code.OK
        entries += 1
    again = Rig(disk)
    assert [again.read(7, entry)[0] for entry in range(entries)] == [Code.OK] * entries


@on_uvloop
async def test_a_segment_that_a_full_disk_kept_is_removed_later(tmp_path: Path) -> None:
    disk = FullDisk(tmp_path / "b1")
    async with running_bookie(disk) as (bookie, ledgers):
        ledger = await ledgers.create(b"t", 1, ONE)
        while len(bookie.server.engine.segments.sealed) < 3:
            assert not isinstance(await _append(ledger), LedgerError)
        await ledger.close()
        await ledgers.delete(ledger.ledger)
        files = {segment_name(segment.number) for segment in bookie.server.engine.segments.sealed}
        disk.is_full = True
        with pytest.raises(DiskFullError):
            await bookie.collect()
        disk.is_full = False
        await bookie.collect()
        assert not bookie.server.engine.segments.sealed
        assert files.isdisjoint(disk.names())


class Filled:
    def __init__(self, disk: SmallDisk, bookie: Bookie, ledgers: BookieLedgers) -> None:
        self.disk, self.bookie, self.ledgers = disk, bookie, ledgers

    async def looked(self, times: int = 5) -> None:
        """Until the bookie has looked at its disk so often."""
        enough = self.disk.looks + times
        await until(lambda: self.disk.looks >= enough)


async def _append(ledger: OpenLedger) -> int | LedgerError:
    done: asyncio.Future[int | LedgerError] = asyncio.get_running_loop().create_future()
    ledger.append(bytes(1000), done.set_result)
    return await done


@asynccontextmanager
async def running_bookie(disk: DirectoryDisk) -> AsyncIterator[tuple[Bookie, BookieLedgers]]:
    server = MemoryStoreServer(MemoryTree(asyncio.get_running_loop().time))
    await server.start()
    store = await open_store(f"eqs://127.0.0.1:{server.port}")
    settings = BookieSettings(segment_bytes=SMALL.segment_bytes, room_interval_s=0.005)
    bookie = Bookie(
        BookieFacts(name="b1", host="127.0.0.1", port=0), disk, store, Tree(), Random(2), settings
    )
    await bookie.start(listen_host="127.0.0.1")
    running = asyncio.create_task(bookie.run())
    ledgers = BookieLedgers(store, Tree(), Random(1), settings=BRIEF)
    await ledgers.start()
    try:
        yield bookie, ledgers
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await ledgers.close()
        await bookie.stop()
        await store.close()
        await server.stop()


@asynccontextmanager
async def filled_bookie(folder: Path) -> AsyncIterator[Filled]:
    """A bookie to which a client has appended until there was no room."""
    disk = SmallDisk(folder / "b1")
    async with running_bookie(disk) as (bookie, ledgers):
        ledger = await ledgers.create(b"t", 1, ONE)
        while not isinstance(await _append(ledger), LedgerError):
            pass
        yield Filled(disk, bookie, ledgers)


@on_uvloop
async def test_it_stays_read_only_and_does_not_try_again_until_there_is_room(tmp_path: Path) -> None:
    async with filled_bookie(tmp_path) as world:
        await until(lambda: world.bookie.facts.is_read_only)
        attempts = world.disk.allocations
        await world.looked()
        assert world.bookie.facts.is_read_only
        # Recovery may write to a bookie that is nearly full; not to one that is full.
        with pytest.raises(LedgerError):
            await world.ledgers.recover((await _ids(world))[0])
        assert world.disk.allocations == attempts
        world.disk.free_bytes += 10 * SMALL.segment_bytes
        await until(lambda: not world.bookie.facts.is_read_only)
        await world.ledgers.pool.refresh()
        assert not isinstance(await _append(await world.ledgers.create(b"t", 2, ONE)), LedgerError)


@on_uvloop
async def test_the_reason_names_the_bookie_and_the_remedy(tmp_path: Path) -> None:
    async with filled_bookie(tmp_path) as world:
        await until(lambda: world.bookie.facts.is_read_only)
        await until(lambda: all(each.is_read_only for each in world.ledgers.pool.known.values()))
        with pytest.raises(LedgerError, match=r"b1 is read-only with 0\.0 GB free\): free space on the disk"):
            await world.ledgers.create(b"t", 2, ONE)
        with pytest.raises(LedgerError, match=r"too few bookies \(b1 is read-only"):
            await world.ledgers.recover((await _ids(world))[0])


async def _ids(world: Filled) -> list[int]:
    return [ledger async for ledger in world.ledgers.records.ids()]
