"""A memory tree with persistent nodes: every change is in a file before its reply.

For a single hub, which is a region of its own: no ZooKeeper, no Java. A change is one frame: length, checksum,
MessagePack. A frame that is truncated or damaged at the end of the file had no reply, and is cut off. Every start
rewrites the file without outdated changes, so it grows only with the changes of one run.

Such a hub makes few changes (it opens a topic's log, an operator sets a spec), so each is synced alone, in the loop.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator

import msgspec

from equipoise.disk import Disk, File
from equipoise.errors import DamagedError, DiskFailedError, DiskFullError, StoreError
from equipoise.store.backends.memory_tree import MemoryTree
from equipoise.store.contract import Node

__all__ = ["JournalledTree"]

_NAME = "store.journal"
_NEXT = "store.journal.next"
_FRAME = struct.Struct("<II")
_encoder = msgspec.msgpack.Encoder()


class _Change(msgspec.Struct, frozen=True, array_like=True):
    """The present state of a node; `is_deleted`: the node does not exist."""

    node: Node
    is_deleted: bool = False


_decoder = msgspec.msgpack.Decoder(_Change)


class JournalledTree(MemoryTree):
    """Owns its file. Rejects a change if the disk is full. After a failed sync it rejects all changes."""

    def __init__(self, clock: Callable[[], float], disk: Disk) -> None:
        """Raises DamagedError if the file is damaged before its end."""
        super().__init__(clock)
        self._failure: StoreError | None = None
        if _NAME in disk.names():
            self._replay(disk.read(_NAME))
        self._file = self._rewrite(disk)

    def create(self, session: int, path: str, data: bytes, ephemeral: bool) -> Node:
        self._check()
        node = super().create(session, path, data, ephemeral)
        if not ephemeral:
            self._write(_Change(node), undo=lambda: self.forget(path))
        return node

    def set(self, session: int, path: str, data: bytes, version: int | None) -> Node:
        self._check()
        former = self.find(path)
        node = super().set(session, path, data, version)
        if former is not None and not node.owner:
            self._write(_Change(node), undo=lambda: self.restore(former))
        return node

    def delete(self, session: int, path: str, version: int | None) -> None:
        self._check()
        node = self.get(path)
        super().delete(session, path, version)
        if not node.owner:
            gone = _Change(Node(path, b"", node.version, node.created_id), is_deleted=True)
            self._write(gone, undo=lambda: self.restore(node))

    def _check(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _write(self, change: _Change, undo: Callable[[], None]) -> None:
        """Raises StoreError: a change that is not in the file is not in the tree either."""
        try:
            self._file.append(_framed(change))
        except DiskFullError as problem:
            # The file has no part of it. A watcher of the node reads again, and finds it unchanged.
            undo()
            raise StoreError(f"{problem}: free space on it") from problem
        except DiskFailedError as problem:
            undo()
            raise self._failed(problem) from problem
        try:
            self._file.sync()
        except (DiskFullError, DiskFailedError) as problem:
            # It may be in the file or not: the next start decides.
            raise self._failed(problem) from problem

    def _failed(self, problem: DiskFullError | DiskFailedError) -> StoreError:
        self._failure = StoreError(f"the store has ended, start the hub again: {problem}")
        return self._failure

    def _replay(self, data: bytes) -> None:
        for body in _bodies(data):
            try:
                change = _decoder.decode(body)
            except msgspec.MsgspecError as problem:
                raise DamagedError(_NAME, f"a change cannot be read: {problem}") from problem
            if change.is_deleted:
                self.forget(change.node.path)
            else:
                self.restore(change.node)

    def _rewrite(self, disk: Disk) -> File:
        """Replaces the file atomically by one with the present nodes."""
        if _NEXT in disk.names():
            disk.remove(_NEXT)
        file = disk.open(_NEXT)
        for node in self.persistent():
            file.append(_framed(_Change(node)))
        file.sync()
        file.close()
        disk.rename(_NEXT, _NAME)
        disk.sync_directory()
        return disk.open(_NAME)


def _framed(change: _Change) -> bytes:
    body = _encoder.encode(change)
    return _FRAME.pack(len(body), zlib.crc32(body)) + body


def _bodies(data: bytes) -> Iterator[bytes]:
    """The whole frames, up to the first truncated or damaged one. Raises DamagedError if valid frames follow it."""
    at = 0
    while at + _FRAME.size <= len(data):
        size, checksum = _FRAME.unpack_from(data, at)
        body = data[at + _FRAME.size : at + _FRAME.size + size]
        if len(body) < size:
            return
        if zlib.crc32(body) != checksum:
            if at + _FRAME.size + size < len(data):
                raise DamagedError(_NAME, f"the change at byte {at} does not match its checksum")
            return
        yield body
        at += _FRAME.size + size
