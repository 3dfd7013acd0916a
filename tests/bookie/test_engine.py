"""Replies of a bookie, before and after a restart, on a directory and on a simulated disk."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bookie.rig import KEY, SMALL, Rig, stored
from equipoise.bookie.manifest import Manifest, load_manifest, save_deleted, save_manifest, segment_name
from equipoise.bookie.settings import BookieSettings
from equipoise.disk import DirectoryDisk, Disk
from equipoise.errors import DamagedError, DiskFullError, SettingsError
from equipoise.lab.simulation import Simulation
from equipoise.ledger.entry import ledger_key
from equipoise.ledger.wire import AddRequest, Code, Flag, ReadRequest

OTHER_KEY = ledger_key(b"other")


@pytest.fixture(params=["directory", "simulated"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Disk]:
    if request.param == "directory":
        yield DirectoryDisk(tmp_path / "bookie")
    else:
        with Simulation() as sim:
            yield sim.host("bookie").disk


def test_added_entries_are_read_now_and_after_a_restart(disk: Disk) -> None:
    rig = Rig(disk)
    assert rig.add(7, 0, b"zero") == Code.OK
    assert rig.add(7, 1, b"one") == Code.OK
    for each in (rig, Rig(disk)):
        assert each.read(7, 0) == (Code.OK, stored(7, 0, b"zero"))
        assert each.read(7, -1) == (Code.OK, stored(7, 1, b"one"))
        assert each.read(7, 2) == (Code.NO_ENTRY, b"")
        assert each.read(8, 0) == (Code.NO_LEDGER, b"")


def test_a_batch_ends_at_a_missing_entry_or_at_the_size_limit(disk: Disk) -> None:
    rig = Rig(disk)
    for entry in (0, 1, 2, 3, 5):
        assert rig.add(7, entry, b"x" * 100) == Code.OK
    bodies = [stored(7, entry, b"x" * 100) for entry in range(4)]
    for each in (rig, Rig(disk)):
        assert each.read_batch(7, 0) == (Code.OK, bodies)
        assert each.read_batch(7, 1, count_max=2) == (Code.OK, bodies[1:3])
        assert each.read_batch(7, 1, bytes_max=2 * len(bodies[0])) == (Code.OK, bodies[1:3])
        # The first comes whatever its size.
        assert each.read_batch(7, 2, count_max=0, bytes_max=0) == (Code.OK, bodies[2:3])
        assert each.read_batch(7, 4) == (Code.NO_ENTRY, [])
        assert each.read_batch(7, 6) == (Code.NO_ENTRY, [])
        assert each.read_batch(7, -1) == (Code.BAD_REQUEST, [])
        assert each.read_batch(8, 0) == (Code.NO_LEDGER, [])


def test_many_segments_are_read_through_their_indexes_and_rebuilt_without_them(disk: Disk) -> None:
    rig = Rig(disk)
    payload = bytes(700)
    for entry in range(400):
        assert rig.add(entry % 5, entry, payload) == Code.OK
    assert len(rig.engine.segments.sealed) >= 4
    for name in disk.names():
        if name.startswith("index-"):
            disk.remove(name)
    for each in (rig, Rig(disk), Rig(disk)):
        for entry in range(400):
            assert each.read(entry % 5, entry) == (Code.OK, stored(entry % 5, entry, payload))
        assert each.read(0, 1) == (Code.NO_ENTRY, b"")


def test_a_group_is_answered_in_order_and_written_once(disk: Disk) -> None:
    rig = Rig(disk)
    requests = [AddRequest(1, entry, KEY, Flag(0), stored(1, entry)) for entry in range(20)]
    for request in requests:
        assert rig.engine.submit(None, request) is None
    group = rig.engine.take()
    assert group is not None
    assert not rig.engine.has_work
    assert rig.read(1, 0)[0] is Code.NO_LEDGER or rig.read(1, 0)[0] is Code.NO_ENTRY
    rig.engine.segments.write(group.offset, group.data)
    assert len(rig.engine.commit(group)) == 20
    assert rig.read(1, 19) == (Code.OK, stored(1, 19))


def test_a_fenced_ledger_rejects_adds_except_for_recovery_now_and_after_a_restart(disk: Disk) -> None:
    rig = Rig(disk)
    rig.add(1, 0)
    assert rig.fence(1) == (Code.OK, stored(1, 0))
    for each in (rig, Rig(disk)):
        assert each.add(1, 1) == Code.FENCED
        assert each.read(1, 1) == (Code.NO_ENTRY, b"")
    assert Rig(disk).add(1, 1, flags=Flag.RECOVERY) == Code.OK


def test_fencing_a_missing_ledger_is_permanent(disk: Disk) -> None:
    assert Rig(disk).fence(1) == (Code.NO_ENTRY, b"")
    assert Rig(disk).add(1, 0) == Code.FENCED


def test_an_add_before_a_fence_in_the_same_group_is_part_of_its_reply(disk: Disk) -> None:
    rig = Rig(disk)
    first, fence, late = rig.ask(
        AddRequest(1, 0, KEY, Flag(0), stored(1, 0)),
        ReadRequest(1, -1, KEY, Flag.FENCE),
        AddRequest(1, 1, KEY, Flag(0), stored(1, 1)),
    )
    # Refusals come first.
    assert [(type(each).__name__, each.code) for each in (first, fence, late)] == [
        ("AddAnswer", Code.FENCED),
        ("AddAnswer", Code.OK),
        ("ReadAnswer", Code.OK),
    ]
    assert late.body == stored(1, 0)  # type: ignore[union-attr]


def test_another_key_is_rejected(disk: Disk) -> None:
    rig = Rig(disk)
    rig.add(1, 0)
    for each in (rig, Rig(disk)):
        assert each.add(1, 1, key=OTHER_KEY) == Code.WRONG_KEY
        assert each.fence(1, OTHER_KEY) == (Code.WRONG_KEY, b"")
        assert each.add(1, 1) == Code.OK


def test_the_same_entry_again_gets_the_same_reply_and_the_last_copy_counts(disk: Disk) -> None:
    rig = Rig(disk)
    assert [rig.add(1, 0, b"a"), rig.add(1, 0, b"a")] == [Code.OK, Code.OK]
    assert Rig(disk).read(1, 0) == (Code.OK, stored(1, 0, b"a"))


def test_negative_entries_and_those_too_large_for_a_segment_are_rejected(disk: Disk) -> None:
    rig = Rig(disk)
    assert rig.add(1, -3) == Code.BAD_REQUEST
    assert rig.add(1, 0, bytes(70_000)) == Code.BAD_REQUEST
    assert rig.add(1, 0, bytes(60_000)) == Code.OK


def test_a_full_queue_is_busy(disk: Disk) -> None:
    rig = Rig(disk, BookieSettings(segment_bytes=64 * 1024, queue_bytes_max=4096))
    answers = rig.ask(*(AddRequest(1, e, KEY, Flag(0), stored(1, e, bytes(1000))) for e in range(8)))
    assert {answer.code for answer in answers} == {Code.OK, Code.BUSY}


def test_a_read_only_bookie_takes_recovery_adds_and_is_read(disk: Disk) -> None:
    rig = Rig(disk)
    rig.add(1, 0)
    rig.engine.is_full = True
    assert rig.add(1, 1) == Code.READ_ONLY
    assert rig.add(1, 1, flags=Flag.RECOVERY | Flag.HIGH_PRIORITY) == Code.OK
    assert rig.read(1, 0)[0] == Code.OK
    assert rig.fence(1)[0] == Code.OK


def test_deleted_ledgers_are_removed_and_stay_fenced_for_paused_writers(disk: Disk) -> None:
    rig = Rig(disk)
    rig.add(1, 0)
    rig.add(2, 0)
    save_deleted(disk, rig.engine.forget([1]))
    for each in (rig, Rig(disk)):
        assert each.engine.ledgers == (2,)
        assert each.read(1, 0) == (Code.NO_LEDGER, b"")
        assert each.add(1, 1) == Code.FENCED


def compacted(rig: Rig) -> None:
    segment = rig.engine.segments.sealed[0]
    rig.ask()
    for request in list(rig.engine.copies(segment)):
        assert rig.engine.submit(None, request) is None
    rig.ask()
    rig.engine.segments.detach(segment)
    rig.engine.segments.remove(segment)


def test_compaction_keeps_live_entries_keys_and_fences(disk: Disk) -> None:
    rig = Rig(disk)
    assert rig.fence(9) == (Code.NO_ENTRY, b"")
    for entry in range(30):
        rig.add(1, entry, bytes(1000))
        rig.add(2, entry, bytes(1000))
    rig.fence(2)
    assert len(rig.engine.segments.sealed) == 0
    rig.engine.segments.roll()
    save_deleted(disk, rig.engine.forget([1]))
    assert 0.4 < rig.engine.live_share(rig.engine.segments.sealed[0]) < 0.6
    compacted(rig)
    for each in (rig, Rig(disk)):
        assert each.add(9, 0) == Code.FENCED
        assert each.add(2, 30) == Code.FENCED
        assert each.add(2, 30, key=OTHER_KEY) == Code.WRONG_KEY
        assert [each.read(2, entry)[0] for entry in range(30)] == [Code.OK] * 30
        assert each.read(1, 0)[0] == Code.NO_LEDGER


def test_a_directory_without_a_listed_segment_is_an_error(disk: Disk) -> None:
    rig = Rig(disk)
    rig.add(1, 0)
    disk.remove(segment_name(rig.engine.segments.open.number))
    with pytest.raises(DamagedError, match="missing"):
        Rig(disk)


def test_a_directory_of_a_newer_version_is_an_error(disk: Disk) -> None:
    save_manifest(disk, Manifest(format=2, bookie="b", instance="i", salt="00"))
    with pytest.raises(SettingsError, match="newer"):
        load_manifest(disk)


def test_segments_without_a_manifest_are_an_error(disk: Disk) -> None:
    Rig(disk)
    disk.remove("manifest")
    with pytest.raises(DamagedError):
        load_manifest(disk)


def test_restarts_do_not_pile_up_empty_segments(disk: Disk) -> None:
    for _ in range(5):
        Rig(disk)
    assert sum(name.startswith("segment-") for name in disk.names()) == 1


def test_without_room_for_another_segment_adds_are_rejected_and_a_fence_is_unknown() -> None:
    with Simulation() as sim:
        disk = sim.host("bookie").disk
        disk.capacity_bytes = 100_000
        rig = Rig(disk, SMALL)
        entry = 0
        while True:
            assert (
                rig.engine.submit(None, AddRequest(1, entry, KEY, Flag(0), stored(1, entry, bytes(1000))))
                is None
            )
            group = rig.engine.take()
            if group is None:
                break
            rig.engine.segments.write(group.offset, group.data)
            rig.engine.commit(group)
            entry += 1
        with pytest.raises(DiskFullError):
            rig.engine.segments.roll()
        assert len(rig.engine.refuse_all()) == 1
        assert [rig.read(1, each)[0] for each in range(entry)] == [Code.OK] * entry
