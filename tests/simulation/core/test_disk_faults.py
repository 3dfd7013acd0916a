"""The content of a simulated disk after a crash, and its failures on request."""

from __future__ import annotations

import pytest

from equipoise.disk import write_atomically
from equipoise.errors import DiskFailedError, DiskFullError
from equipoise.lab.simulation import Host, Simulation

SEEDS = range(200)


def _power_cycle(host: Host) -> None:
    host.crash()
    host.restart()


def test_synced_bytes_under_a_synced_name_survive_every_crash() -> None:
    for seed in SEEDS:
        with Simulation(seed) as sim:
            host = sim.host("bookie")
            file = host.disk.open("log")
            file.append(b"durable")
            file.sync()
            host.disk.sync_directory()
            file.append(b" and not")
            _power_cycle(host)
            assert host.disk.read("log").startswith(b"durable")


def test_unsynced_bytes_survive_as_a_prefix_torn_at_any_place() -> None:
    kept: set[int] = set()
    for seed in SEEDS:
        with Simulation(seed) as sim:
            host = sim.host("bookie")
            file = host.disk.open("log")
            host.disk.sync_directory()
            file.append(b"0123456789")
            _power_cycle(host)
            content = host.disk.read("log")
            assert b"0123456789".startswith(content)
            kept.add(len(content))
            assert sim.faults["torn tail"] + sim.faults["lost unsynced"] == 1
    assert kept == set(range(11))


def test_a_name_that_was_not_synced_may_vanish_with_all_it_holds() -> None:
    survived = set()
    for seed in SEEDS:
        with Simulation(seed) as sim:
            host = sim.host("bookie")
            file = host.disk.open("log")
            file.append(b"data")
            file.sync()
            _power_cycle(host)
            survived.add(bool(host.disk.names()))
    assert survived == {True, False}


def test_unsynced_directory_changes_survive_in_order() -> None:
    for seed in SEEDS:
        with Simulation(seed) as sim:
            host = sim.host("bookie")
            for name in ("a", "b", "c"):
                host.disk.open(name)
            _power_cycle(host)
            assert host.disk.names() in ([], ["a"], ["a", "b"], ["a", "b", "c"])


def test_an_atomic_write_is_old_or_new_after_a_crash_at_any_operation() -> None:
    operations = ("open", "truncate", "append", "sync", "rename", "sync_directory")
    seen = set()
    for seed in SEEDS:
        with Simulation(seed) as sim:
            host = sim.host("bookie")
            write_atomically(host.disk, "mark", b"old")
            host.disk.fail(operations[seed % len(operations)])
            with pytest.raises(DiskFailedError):
                write_atomically(host.disk, "mark", b"new")
            _power_cycle(host)
            seen.add(host.disk.read("mark"))
    assert seen == {b"old", b"new"}


def test_an_atomic_write_that_returned_is_durable() -> None:
    for seed in SEEDS:
        with Simulation(seed) as sim:
            host = sim.host("bookie")
            write_atomically(host.disk, "mark", b"old")
            write_atomically(host.disk, "mark", b"new")
            _power_cycle(host)
            assert host.disk.read("mark") == b"new"


def test_a_failed_sync_loses_its_data_though_a_later_sync_succeeds() -> None:
    with Simulation() as sim:
        host = sim.host("bookie")
        file = host.disk.open("log")
        host.disk.sync_directory()
        file.append(b"first")
        file.sync()
        file.append(b" second")
        host.disk.fail("sync", "log")
        with pytest.raises(DiskFailedError) as caught:
            file.sync()
        assert (caught.value.operation, caught.value.name) == ("sync", "log")
        file.sync()
        _power_cycle(host)
        assert host.disk.read("log") == b"first"


def test_a_truncation_that_was_not_synced_may_be_undone() -> None:
    contents = set()
    for seed in SEEDS:
        with Simulation(seed) as sim:
            host = sim.host("bookie")
            file = host.disk.open("log")
            file.append(b"long content")
            file.sync()
            host.disk.sync_directory()
            file.truncate(4)
            _power_cycle(host)
            contents.add(host.disk.read("log"))
    assert contents == {b"long", b"long content"}


def test_a_full_disk_takes_nothing_of_what_does_not_fit() -> None:
    with Simulation() as sim:
        disk = sim.host("bookie").disk
        disk.capacity_bytes = 10
        file = disk.open("log")
        file.append(b"12345678")
        with pytest.raises(DiskFullError):
            file.append(b"abc")
        assert file.size() == 8
        file.append(b"90")
        assert sim.faults["disk full"] == 1


def test_chosen_operations_fail_as_often_as_asked_and_on_the_file_asked() -> None:
    with Simulation() as sim:
        disk = sim.host("bookie").disk
        one, other = disk.open("one"), disk.open("other")
        disk.fail("append", "one", times=2)
        other.append(b"fine")
        for _ in range(2):
            with pytest.raises(DiskFailedError, match="Input/output error"):
                one.append(b"x")
        one.append(b"y")
        assert disk.read("one") == b"y"
        assert sim.faults["disk failure"] == 2


def test_rot_flips_one_bit_for_good() -> None:
    with Simulation(3) as sim:
        host = sim.host("bookie")
        file = host.disk.open("log")
        file.append(bytes(100))
        file.sync()
        host.disk.sync_directory()
        offset = host.disk.rot("log")
        rotten = host.disk.read("log")
        assert sum(byte.bit_count() for byte in rotten) == 1
        assert rotten[offset] != 0
        _power_cycle(host)
        assert host.disk.read("log") == rotten
        assert sim.faults["bit rot"] == 1


def test_a_handle_from_before_a_crash_is_stale() -> None:
    with Simulation() as sim:
        host = sim.host("bookie")
        file = host.disk.open("log")
        _power_cycle(host)
        with pytest.raises(DiskFailedError, match="before a crash"):
            file.append(b"from the dead")


def test_each_seed_tears_in_its_own_way_and_always_the_same() -> None:
    def left(seed: int) -> bytes:
        with Simulation(seed) as sim:
            host = sim.host("bookie")
            file = host.disk.open("log")
            host.disk.sync_directory()
            file.append(bytes(range(200)))
            _power_cycle(host)
            return host.disk.read("log")

    assert [left(seed) for seed in range(20)] == [left(seed) for seed in range(20)]
    assert len({left(seed) for seed in range(20)}) > 10
