"""What every disk promises; see `equipoise.disk.contract`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from equipoise.disk import DirectoryDisk, Disk, write_atomically
from equipoise.errors import MisuseError
from equipoise.lab.simulation import Simulation


@pytest.fixture(params=["directory", "simulated"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Disk]:
    if request.param == "directory":
        yield DirectoryDisk(tmp_path / "files")
    else:
        with Simulation() as sim:
            yield sim.host("bookie").disk


def test_a_new_disk_is_empty(disk: Disk) -> None:
    assert disk.names() == []


def test_opening_makes_an_empty_file(disk: Disk) -> None:
    file = disk.open("log")
    assert file.name == "log"
    assert file.size() == 0
    assert disk.names() == ["log"]
    file.close()


def test_appends_follow_each_other_and_say_where_they_begin(disk: Disk) -> None:
    file = disk.open("log")
    assert [file.append(b"one"), file.append(b""), file.append(b"two!")] == [0, 3, 3]
    assert file.size() == 7
    assert disk.read("log") == b"onetwo!"
    file.close()


def test_reading_takes_any_range_and_stops_at_the_end(disk: Disk) -> None:
    file = disk.open("log")
    file.append(b"0123456789")
    assert file.read(2, 3) == b"234"
    assert file.read(8, 100) == b"89"
    assert file.read(10, 5) == b""
    file.close()


def test_reading_does_not_move_where_the_next_append_goes(disk: Disk) -> None:
    file = disk.open("log")
    file.append(b"ab")
    file.read(0, 1)
    file.append(b"cd")
    assert disk.read("log") == b"abcd"
    file.close()


def test_a_file_opened_again_goes_on_at_its_end(disk: Disk) -> None:
    file = disk.open("log")
    file.append(b"before ")
    file.sync()
    file.close()
    again = disk.open("log")
    assert again.append(b"after") == 7
    assert disk.read("log") == b"before after"
    again.close()


def test_truncating_drops_the_tail_and_appends_go_on_there(disk: Disk) -> None:
    file = disk.open("log")
    file.append(b"keep drop")
    file.truncate(4)
    assert file.size() == 4
    assert file.append(b"!") == 4
    assert disk.read("log") == b"keep!"
    file.close()


def test_truncating_beyond_the_end_is_refused(disk: Disk) -> None:
    file = disk.open("log")
    file.append(b"abc")
    with pytest.raises(MisuseError, match="shorter"):
        file.truncate(4)
    assert file.size() == 3
    file.close()


def test_names_come_sorted(disk: Disk) -> None:
    for name in ("b", "c.log", "a-1"):
        disk.open(name).close()
    assert disk.names() == ["a-1", "b", "c.log"]


def test_renaming_replaces_the_file_that_had_the_name(disk: Disk) -> None:
    for name, data in (("old", b"old data"), ("new", b"new data")):
        file = disk.open(name)
        file.append(data)
        file.close()
    disk.rename("new", "old")
    assert disk.names() == ["old"]
    assert disk.read("old") == b"new data"


def test_a_removed_file_is_gone(disk: Disk) -> None:
    disk.open("log").close()
    disk.remove("log")
    disk.sync_directory()
    assert disk.names() == []


def test_a_file_that_is_not_there_cannot_be_read_renamed_or_removed(disk: Disk) -> None:
    with pytest.raises(FileNotFoundError):
        disk.read("absent")
    with pytest.raises(FileNotFoundError):
        disk.rename("absent", "other")
    with pytest.raises(FileNotFoundError):
        disk.remove("absent")


@pytest.mark.parametrize("name", ["", ".", "..", ".hidden", "a/b", "../up", "with space", "nul\0", "x" * 201])
def test_names_that_are_not_plain_are_refused(disk: Disk, name: str) -> None:
    with pytest.raises(MisuseError, match="file name"):
        disk.open(name)


def test_an_atomic_write_leaves_the_new_content_and_no_leftover(disk: Disk) -> None:
    write_atomically(disk, "mark", b"a longer first version")
    write_atomically(disk, "mark", b"second")
    assert disk.read("mark") == b"second"
    assert disk.names() == ["mark"]


def test_an_atomic_write_is_not_spoilt_by_a_leftover(disk: Disk) -> None:
    leftover = disk.open("mark.new")
    leftover.append(b"half a version from before a crash")
    leftover.close()
    write_atomically(disk, "mark", b"whole")
    assert disk.read("mark") == b"whole"


def test_a_fixed_file_has_all_its_room_and_reads_as_zeros(disk: Disk) -> None:
    file = disk.allocate("segment", 10_000)
    assert (file.name, file.size, disk.names()) == ("segment", 10_000, ["segment"])
    assert file.read(9_990, 100) == bytes(10)
    file.close()


def test_a_fixed_file_is_written_at_offsets_and_opened_again(disk: Disk) -> None:
    file = disk.allocate("segment", 100)
    file.write(90, b"0123456789")
    file.write(0, b"abc")
    file.sync()
    file.close()
    again = disk.open_fixed("segment")
    assert (again.size, again.read(0, 4), again.read(88, 4)) == (100, b"abc\0", b"\0\x0001")
    assert len(disk.read("segment")) == 100
    again.close()


def test_nothing_is_written_beyond_the_end_of_a_fixed_file(disk: Disk) -> None:
    file = disk.allocate("segment", 100)
    with pytest.raises(MisuseError):
        file.write(95, b"123456")
    assert file.read(95, 10) == bytes(5)
    file.close()


def test_a_name_in_use_is_not_allocated(disk: Disk) -> None:
    disk.allocate("segment", 100).close()
    with pytest.raises(MisuseError):
        disk.allocate("segment", 100)


def test_a_fixed_file_that_is_not_there_cannot_be_opened(disk: Disk) -> None:
    with pytest.raises(FileNotFoundError):
        disk.open_fixed("segment")
    assert disk.names() == []


def test_a_disk_says_how_much_room_there_is(disk: Disk) -> None:
    room = disk.room()
    assert 0 <= room.free_bytes <= room.total_bytes
    assert 0.0 <= room.used <= 1.0
