"""Torn tails, rot and lost sectors: confirmed entries are never reported as absent, unconfirmed ones are cut."""

from __future__ import annotations

from bookie.rig import KEY, SMALL, Rig, stored
from equipoise.bookie.frame import FRAME_OVERHEAD_BYTES, scan_segment
from equipoise.bookie.manifest import index_name, segment_name
from equipoise.bookie.settings import BookieSettings
from equipoise.disk import DirectoryDisk
from equipoise.lab.simulation import Simulation
from equipoise.ledger.wire import AddRequest, Code, Flag


def test_a_write_cut_at_every_byte_is_cut_and_nothing_before_it_is_lost() -> None:
    """Three entries are answered for; the next group of three is torn at every byte it has."""
    size = 3 * (FRAME_OVERHEAD_BYTES + len(stored(1, 0)))
    for torn_at in range(size + 1):
        with Simulation() as sim:
            disk = sim.host("bookie").disk
            rig = Rig(disk)
            for entry in range(3):
                rig.add(1, entry)
            for entry in range(3, 6):
                rig.engine.submit(None, AddRequest(1, entry, KEY, Flag(0), stored(1, entry)))
            group = rig.engine.take()
            assert group is not None and len(group.data) == size
            file = disk.open_fixed(segment_name(rig.engine.segments.open.number))
            file.write(group.offset, group.data[:torn_at])
            again = Rig(disk)
            assert not again.engine.segments.has_doubt
            assert [again.read(1, entry) for entry in range(3)] == [
                (Code.OK, stored(1, entry)) for entry in range(3)
            ]
            codes = [again.read(1, entry)[0] for entry in range(3, 6)]
            assert codes == sorted(codes), "what survives of a torn group is a prefix"
            assert all(code in (Code.OK, Code.NO_ENTRY) for code in codes)
            assert again.add(1, 3) == Code.OK


def test_a_later_part_of_a_torn_group_does_not_count_without_the_earlier() -> None:
    with Simulation() as sim:
        disk = sim.host("bookie").disk
        rig = Rig(disk)
        rig.add(1, 0)
        for entry in range(1, 4):
            rig.engine.submit(None, AddRequest(1, entry, KEY, Flag(0), stored(1, entry)))
        group = rig.engine.take()
        assert group is not None
        third = len(group.data) // 3
        file = disk.open_fixed(segment_name(rig.engine.segments.open.number))
        file.write(group.offset + third, group.data[third:])
        again = Rig(disk)
        assert [again.read(1, entry)[0] for entry in range(4)] == [Code.OK, *[Code.NO_ENTRY] * 3]
        assert again.engine.segments.torn_bytes > 0


def test_rot_of_any_byte_before_the_last_group_gives_unknown_and_never_absent() -> None:
    """Every byte of three synced groups, each rotten once, in a segment that was not sealed."""
    with Simulation() as sim:
        rig = Rig(sim.host("plain").disk)
        for entry in range(4):
            rig.add(1, entry)
        end = rig.engine.segments.open.end
        before_last = end - FRAME_OVERHEAD_BYTES - len(stored(1, 3))
    for offset in range(end):
        with Simulation(offset) as sim:
            disk = sim.host("bookie").disk
            rig = Rig(disk)
            for entry in range(4):
                rig.add(1, entry)
            disk.rot(segment_name(rig.engine.segments.open.number), offset)
            again = Rig(disk)
            for entry in range(4):
                code, body = again.read(1, entry)
                assert code is not Code.OK or body == stored(1, entry)
                if entry < 3 or offset < before_last:
                    assert code in (Code.OK, Code.UNKNOWN), (offset, entry, code)
            if again.engine.segments.has_doubt:
                assert again.add(1, 4) == Code.READ_ONLY, "a fence may have been among what is lost"
                assert again.add(1, 3, flags=Flag.RECOVERY) == Code.OK
                assert again.read(2, 0)[0] == Code.UNKNOWN
                again.engine.segments.settle_damage()
                assert Rig(disk).read(2, 0)[0] == Code.NO_LEDGER


def test_rot_in_a_sealed_segment_touches_one_entry() -> None:
    with Simulation() as sim:
        disk = sim.host("bookie").disk
        rig = Rig(disk)
        for entry in range(3):
            rig.add(1, entry, bytes(500))
        number = rig.engine.segments.open.number
        rig.engine.segments.close()
        disk.rot(segment_name(number), 700)
        again = Rig(disk)
        assert [again.read(1, entry)[0] for entry in range(4)] == [
            Code.OK,
            Code.UNKNOWN,
            Code.OK,
            Code.NO_ENTRY,
        ]
        assert again.engine.damaged_reads == 1
        assert again.add(1, 1, bytes(500), flags=Flag.RECOVERY) == Code.OK
        assert again.read(1, 1) == (Code.OK, stored(1, 1, bytes(500)))


def test_a_damaged_index_is_rebuilt_or_gives_unknown() -> None:
    with Simulation() as sim:
        disk = sim.host("bookie").disk
        rig = Rig(disk)
        for entry in range(3):
            rig.add(1, entry)
        number = rig.engine.segments.open.number
        rig.engine.segments.close()
        size = len(disk.read(index_name(number)))
    for offset in range(0, size, 7):
        with Simulation(offset) as sim:
            disk = sim.host("bookie").disk
            rig = Rig(disk)
            for entry in range(3):
                rig.add(1, entry)
            rig.engine.segments.close()
            disk.rot(index_name(number), offset)
            again = Rig(disk)
            codes = {again.read(1, entry)[0] for entry in range(3)}
            assert codes in ({Code.OK}, {Code.UNKNOWN})


def test_a_lost_sector_gives_unknown() -> None:
    with Simulation() as sim:
        disk = sim.host("bookie").disk
        rig = Rig(disk)
        for entry in range(10):
            rig.add(1, entry, bytes(500))
        disk.lose_sector(segment_name(rig.engine.segments.open.number), 1100)
        assert Code.UNKNOWN in {rig.read(1, entry)[0] for entry in range(10)}
        again = Rig(disk)
        codes = [again.read(1, entry)[0] for entry in range(10)]
        assert Code.UNKNOWN in codes and Code.OK in codes
        assert Code.NO_ENTRY not in codes


def test_a_payload_that_looks_like_a_frame_is_no_frame() -> None:
    with Simulation() as sim:
        disk = sim.host("bookie").disk
        rig = Rig(disk)
        rig.add(1, 0)
        data = disk.read(segment_name(rig.engine.segments.open.number)).rstrip(b"\0")
        rig.add(2, 0, data)
        rig.add(2, 1)
        offset = rig.engine.segments.open.end - 700
        assert offset < 0 or data
        again = Rig(disk)
        assert again.read(2, 0) == (Code.OK, stored(2, 0, data))
        scan = scan_segment(bytes(5) + data, rig.engine.segments.manifest.seed, 1)
        assert scan.frames == []


def test_a_crash_at_any_moment_keeps_confirmed_entries() -> None:
    for seed in range(60):
        with Simulation(seed) as sim:
            host = sim.host("bookie")
            rig = Rig(host.disk, BookieSettings(segment_bytes=64 * 1024))
            answered: list[tuple[int, int]] = []
            for round_ in range(3):
                for entry in range(40):
                    ledger = sim.random.randrange(3)
                    number = round_ * 1000 + entry
                    assert rig.add(ledger, number, bytes(sim.random.randrange(2000))) == Code.OK
                    answered.append((ledger, number))
                rig.engine.submit(
                    None, AddRequest(0, round_ * 1000 + 900, KEY, Flag(0), stored(0, 900, bytes(3000)))
                )
                group = rig.engine.take()
                if group is not None:
                    rig.engine.segments.open.file.write(group.offset, group.data)
                host.crash()
                host.restart()
                rig = Rig(host.disk, SMALL)
                assert not rig.engine.segments.has_doubt
                assert all(rig.read(ledger, number)[0] is Code.OK for ledger, number in answered)


def test_a_directory_on_a_real_disk_is_truncated_as_well(tmp_path: object) -> None:
    disk = DirectoryDisk(str(tmp_path))
    rig = Rig(disk)
    rig.add(1, 0)
    segment = rig.engine.segments.open
    segment.file.write(segment.end, b"EqFr" + bytes(range(40)))
    again = Rig(disk)
    assert again.engine.segments.torn_bytes > 0
    assert again.read(1, 0)[0] is Code.OK
    assert again.read(1, 1)[0] is Code.NO_ENTRY
