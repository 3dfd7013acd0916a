"""Files of fixed size on a simulated disk: crashes before, in and after a sync, lies, lost sectors, full disks."""

from __future__ import annotations

import asyncio

import pytest

from equipoise.errors import DiskFailedError, DiskFullError
from equipoise.lab.simulation import Simulation
from equipoise.lab.simulation.fixed_file import SECTOR_BYTES

SYNC_S = 0.01


def crashed_after(seconds: float, *, seed: int = 1, is_lying: bool = False) -> tuple[bytes, bool]:
    """Write two sectors and sync them in a thread; crash so long after. What is left, and whether sync returned."""
    with Simulation(seed) as sim:
        host = sim.host("bookie")
        host.disk.sync_s_min = host.disk.sync_s_max = SYNC_S
        file = host.disk.allocate("segment", 4 * SECTOR_BYTES)
        host.disk.sync_directory()
        host.disk.is_lying = is_lying
        has_returned = []

        async def write() -> None:
            file.write(0, b"x" * 2 * SECTOR_BYTES)
            await asyncio.get_running_loop().run_in_executor(None, file.sync)
            has_returned.append(True)

        async def main() -> None:
            host.spawn(write())
            await asyncio.sleep(seconds)
            host.crash()
            host.restart()
            # A sync that was cut short never ends later.
            await asyncio.sleep(1.0)

        sim.run(main())
        return host.disk.read("segment"), bool(has_returned)


def test_a_sync_that_has_returned_has_made_everything_durable() -> None:
    for seed in range(20):
        left, has_returned = crashed_after(2 * SYNC_S, seed=seed)
        assert has_returned
        assert left == b"x" * 2 * SECTOR_BYTES + bytes(2 * SECTOR_BYTES)


def test_a_crash_falls_into_a_sync_and_leaves_any_part_of_what_it_would_have_covered() -> None:
    found = [crashed_after(SYNC_S / 2, seed=seed) for seed in range(40)]
    assert not any(has_returned for _, has_returned in found)
    assert len({left for left, _ in found}) >= 4
    first_lost_second_kept = [
        left
        for left, _ in found
        if left[:SECTOR_BYTES].count(b"x") == 0 and left[SECTOR_BYTES : 2 * SECTOR_BYTES].count(b"x") > 0
    ]
    assert first_lost_second_kept


def test_a_lying_sync_returns_and_makes_nothing_durable() -> None:
    found = [crashed_after(2 * SYNC_S, seed=seed, is_lying=True) for seed in range(20)]
    assert all(has_returned for _, has_returned in found)
    assert any(left == bytes(4 * SECTOR_BYTES) for left, _ in found)


def left_of_a_write_during_a_sync(seed: int) -> bytes:
    with Simulation(seed) as sim:
        host = sim.host("bookie")
        host.disk.sync_s_min = host.disk.sync_s_max = SYNC_S
        file = host.disk.allocate("segment", 2 * SECTOR_BYTES)
        host.disk.sync_directory()
        left = []

        async def write() -> None:
            loop = asyncio.get_running_loop()
            file.write(0, b"a" * SECTOR_BYTES)
            first = loop.run_in_executor(None, file.sync)
            file.write(SECTOR_BYTES, b"b" * SECTOR_BYTES)
            await first

        async def main() -> None:
            host.spawn(write())
            await asyncio.sleep(1.5 * SYNC_S)
            host.crash()
            left.append(host.disk.read("segment"))

        sim.run(main())
        return left[0]


def test_writes_during_a_sync_are_not_covered_by_it() -> None:
    found = [left_of_a_write_during_a_sync(seed) for seed in range(20)]
    assert all(left[:SECTOR_BYTES] == b"a" * SECTOR_BYTES for left in found)
    assert any(left[SECTOR_BYTES:] == bytes(SECTOR_BYTES) for left in found)


def test_a_failed_sync_loses_what_it_should_have_covered_though_a_later_one_succeeds() -> None:
    with Simulation(3) as sim:
        disk = sim.host("bookie").disk
        file = disk.allocate("segment", SECTOR_BYTES)
        disk.sync_directory()
        file.write(0, b"x")
        disk.fail("sync", "segment")
        with pytest.raises(DiskFailedError):
            file.sync()
        file.sync()
        sim.host("bookie").crash()
        assert disk.read("segment") == bytes(SECTOR_BYTES)


def test_a_lost_sector_fails_to_read_until_it_is_written_again() -> None:
    with Simulation() as sim:
        disk = sim.host("bookie").disk
        file = disk.allocate("segment", 3 * SECTOR_BYTES)
        disk.lose_sector("segment", SECTOR_BYTES + 5)
        assert file.read(0, SECTOR_BYTES) == bytes(SECTOR_BYTES)
        with pytest.raises(DiskFailedError):
            file.read(SECTOR_BYTES - 1, 2)
        file.write(SECTOR_BYTES, bytes(SECTOR_BYTES))
        assert file.read(0, 3 * SECTOR_BYTES) == bytes(3 * SECTOR_BYTES)


def test_a_full_disk_refuses_to_allocate_and_says_how_full_it_is() -> None:
    with Simulation() as sim:
        disk = sim.host("bookie").disk
        disk.capacity_bytes = 1000
        disk.allocate("one", 600)
        assert disk.room() == (400, 1000)
        with pytest.raises(DiskFullError):
            disk.allocate("two", 600)
        assert disk.names() == ["one"]
