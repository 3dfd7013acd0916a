"""The tree of a single hub survives its process: confirmed changes are there, torn ones are not."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from equipoise.disk import DirectoryDisk
from equipoise.disk.contract import File
from equipoise.errors import (
    BadVersionError,
    DamagedError,
    DiskFailedError,
    DiskFullError,
    NoNodeError,
    StoreError,
)
from equipoise.store.backends.journal import JournalledTree
from equipoise.store.contract import Node

JOURNAL = "store.journal"


def opened(folder: Path) -> JournalledTree:
    return JournalledTree(lambda: 0.0, DirectoryDisk(folder))


def filled(folder: Path) -> JournalledTree:
    tree = opened(folder)
    session = tree.open_session(10.0, None)
    tree.create(session, "/a", b"1", False)
    tree.create(session, "/a/b", b"2", False)
    tree.create(session, "/a/gone", b"", False)
    tree.create(session, "/a/mine", b"", True)
    tree.set(session, "/a/b", b"3", 0)
    tree.delete(session, "/a/gone", None)
    return tree


def test_persistent_nodes_remain_and_ephemeral_ones_are_deleted(tmp_path: Path) -> None:
    before = filled(tmp_path)
    after = opened(tmp_path)
    assert after.get("/a/b") == before.get("/a/b")
    assert after.children("/a") == ("b",)
    with pytest.raises(NoNodeError):
        after.get("/a/mine")


def test_versions_continue(tmp_path: Path) -> None:
    filled(tmp_path)
    tree = opened(tmp_path)
    session = tree.open_session(10.0, None)
    with pytest.raises(BadVersionError):
        tree.set(session, "/a/b", b"", 0)
    created = tree.create(session, "/new", b"", False)
    assert created.created_id > tree.get("/a/b").created_id


def test_a_tail_that_was_cut_at_any_byte_is_an_unconfirmed_change(tmp_path: Path) -> None:
    filled(tmp_path)
    data = (tmp_path / JOURNAL).read_bytes()
    for size in range(len(data)):
        folder = tmp_path / f"cut-{size}"
        folder.mkdir()
        (folder / JOURNAL).write_bytes(data[:size])
        names = [node.path for node in opened(folder).persistent()]
        assert names == ["/a", "/a/b", "/a/gone"][: len(names)]


def test_damage_before_the_end_is_an_error(tmp_path: Path) -> None:
    filled(tmp_path)
    data = bytearray((tmp_path / JOURNAL).read_bytes())
    data[10] ^= 0xFF
    (tmp_path / JOURNAL).write_bytes(data)
    with pytest.raises(DamagedError, match="checksum"):
        opened(tmp_path)


def test_the_file_holds_only_what_is_left_at_the_next_start(tmp_path: Path) -> None:
    tree = opened(tmp_path)
    session = tree.open_session(10.0, None)
    tree.create(session, "/a", b"", False)
    for number in range(100):
        tree.set(session, "/a", b"%d" % number, None)
    long = (tmp_path / JOURNAL).stat().st_size
    assert opened(tmp_path).get("/a").data == b"99"
    assert (tmp_path / JOURNAL).stat().st_size < long / 20


class FullDisk(DirectoryDisk):
    """Its files take nothing more once it is full."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.is_full = False
        self.fails_sync = False

    def open(self, name: str) -> File:
        return cast(File, _FullFile(self, super().open(name)))


class _FullFile:
    def __init__(self, disk: FullDisk, file: File) -> None:
        self._disk, self._file = disk, file

    def append(self, data: bytes) -> int:
        if self._disk.is_full:
            raise DiskFullError("the disk is full: cannot append store.journal")
        return self._file.append(data)

    def sync(self) -> None:
        if self._disk.fails_sync:
            raise DiskFailedError("sync", "store.journal", "Input/output error")
        self._file.sync()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


def _by_path(tree: JournalledTree) -> dict[str, Node]:
    return {node.path: node for node in tree.persistent()}


def test_a_change_without_room_on_the_disk_is_rejected_and_not_in_the_tree(tmp_path: Path) -> None:
    disk = FullDisk(tmp_path)
    tree = JournalledTree(lambda: 0.0, disk)
    session = tree.open_session(10.0, None)
    tree.create(session, "/a", b"1", False)
    tree.create(session, "/gone", b"", False)
    disk.is_full = True
    before = _by_path(tree)
    for change in (
        lambda: tree.create(session, "/b", b"", False),
        lambda: tree.set(session, "/a", b"2", 0),
        lambda: tree.delete(session, "/gone", None),
    ):
        with pytest.raises(StoreError, match=r"the disk is full.*free space"):
            change()
    tree.create(session, "/mine", b"", True)
    assert _by_path(tree) == before
    assert tree.children("/") == ("a", "gone", "mine")
    # It continues once there is room, and the next start finds the same tree.
    disk.is_full = False
    tree.set(session, "/a", b"3", 0)
    tree.create(session, "/b", b"", False)
    assert _by_path(opened(tmp_path)) == _by_path(tree)


def test_a_failed_sync_ends_it_with_a_reason(tmp_path: Path) -> None:
    disk = FullDisk(tmp_path)
    tree = JournalledTree(lambda: 0.0, disk)
    session = tree.open_session(10.0, None)
    disk.fails_sync = True
    for _ in range(2):
        with pytest.raises(StoreError, match="start the hub again: sync"):
            tree.create(session, "/a", b"", False)
        disk.fails_sync = False
