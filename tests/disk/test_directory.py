"""What is particular to a directory of the operating system."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from equipoise.disk import DirectoryDisk
from equipoise.errors import DiskFailedError, DiskFullError


def test_files_outlive_the_disk_object(tmp_path: Path) -> None:
    file = DirectoryDisk(tmp_path).open("log")
    file.append(b"kept")
    file.sync()
    file.close()
    assert DirectoryDisk(tmp_path).read("log") == b"kept"
    assert (tmp_path / "log").read_bytes() == b"kept"


def test_the_directory_is_made_with_its_parents(tmp_path: Path) -> None:
    disk = DirectoryDisk(tmp_path / "a" / "b")
    disk.sync_directory()
    assert (tmp_path / "a" / "b").is_dir()


def test_folders_inside_are_not_files(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    assert DirectoryDisk(tmp_path).names() == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_device_is_a_disk_full_error(tmp_path: Path) -> None:
    (tmp_path / "full").symlink_to("/dev/full")
    file = DirectoryDisk(tmp_path).open("full")
    with pytest.raises(DiskFullError, match="cannot append full"):
        file.append(b"does not fit")
    file.close()


def test_an_error_of_the_system_names_operation_and_file(tmp_path: Path) -> None:
    disk = DirectoryDisk(tmp_path)
    (tmp_path / "folder").mkdir()
    with pytest.raises(DiskFailedError) as caught:
        disk.open("folder")
    assert (caught.value.operation, caught.value.name) == ("open", "folder")
    assert caught.value.reason == os.strerror(21)
    assert isinstance(caught.value.__cause__, IsADirectoryError)


def test_a_closed_file_fails_and_may_be_closed_again(tmp_path: Path) -> None:
    file = DirectoryDisk(tmp_path).open("log")
    file.close()
    file.close()
    with pytest.raises(DiskFailedError):
        file.append(b"x")
