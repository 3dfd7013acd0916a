"""A `Disk` on a directory of the operating system, and atomic replacement of small files."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from equipoise.disk.contract import Disk, DiskRoom, File, FixedFile, check_name
from equipoise.errors import DiskFailedError, DiskFullError, MisuseError

__all__ = ["DirectoryDisk", "write_atomically"]

TEMPORARY_SUFFIX = ".new"


def write_atomically(disk: Disk, name: str, data: bytes) -> None:
    """Replace the content of a file: after a crash at any moment it has the old or the new content.

    On return the new content is durable. After an error the old content remains; a leftover with the suffix `.new` is
    harmless and overwritten by the next write.
    """
    temporary = name + TEMPORARY_SUFFIX
    file = disk.open(temporary)
    try:
        # A leftover of an earlier crash may be longer than the new content.
        file.truncate(0)
        file.append(data)
        file.sync()
    finally:
        file.close()
    disk.rename(temporary, name)
    disk.sync_directory()


_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


class DirectoryDisk:
    """A disk in `path`, which is created if it is missing. Other files in it are not touched."""

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)
        with _translated("open", str(path)):
            self._path.mkdir(parents=True, exist_ok=True)

    def open(self, name: str) -> File:
        with _translated("open", name):
            return _DirectoryFile(name, self._path / check_name(name))

    def allocate(self, name: str, size: int) -> FixedFile:
        path = self._path / check_name(name)
        with _translated("allocate", name):
            if path.exists():
                raise MisuseError(f"cannot allocate {name!r}: there is a file of that name")
            file = _FixedDirectoryFile(name, path, os.O_CREAT | os.O_EXCL)
            try:
                file.allocate(size)
            except OSError:
                file.close()
                path.unlink()
                raise
            return file

    def open_fixed(self, name: str) -> FixedFile:
        with _translated("open", name):
            return _FixedDirectoryFile(name, self._path / check_name(name), 0)

    def room(self) -> DiskRoom:
        with _translated("room", str(self._path)):
            found = os.statvfs(self._path)
        # Space reserved for the superuser counts as used.
        kept_back = found.f_bfree - found.f_bavail
        return DiskRoom(found.f_bavail * found.f_frsize, (found.f_blocks - kept_back) * found.f_frsize)

    def read(self, name: str) -> bytes:
        with _translated("read", name):
            return (self._path / check_name(name)).read_bytes()

    def names(self) -> list[str]:
        with _translated("names", str(self._path)):
            return sorted(entry.name for entry in os.scandir(self._path) if entry.is_file())

    def rename(self, old: str, new: str) -> None:
        with _translated("rename", old):
            (self._path / check_name(old)).replace(self._path / check_name(new))

    def remove(self, name: str) -> None:
        with _translated("remove", name):
            (self._path / check_name(name)).unlink()

    def sync_directory(self) -> None:
        with _translated("sync_directory", str(self._path)):
            descriptor = os.open(self._path, os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)


class _DirectoryFile:
    """Holds one descriptor, opened for appending."""

    # Set before the open: `close` works also if the open fails.
    _descriptor = -1

    def __init__(self, name: str, path: Path) -> None:
        self._name = name
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)

    @property
    def name(self) -> str:
        return self._name

    def append(self, data: bytes) -> int:
        with _translated("append", self._name):
            start = self._size()
            try:
                self._write_all(data)
            except OSError:
                # All or none: remove the part that was written.
                with suppress(OSError):
                    os.ftruncate(self._descriptor, start)
                raise
            return start

    def read(self, offset: int, size: int) -> bytes:
        with _translated("read", self._name):
            return os.pread(self._descriptor, size, offset)

    def size(self) -> int:
        with _translated("size", self._name):
            return self._size()

    def sync(self) -> None:
        with _translated("sync", self._name):
            os.fsync(self._descriptor)

    def truncate(self, size: int) -> None:
        with _translated("truncate", self._name):
            if size > self._size():
                raise MisuseError(f"cannot truncate {self._name!r} to {size} bytes: it is shorter")
            os.ftruncate(self._descriptor, size)

    def close(self) -> None:
        if self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1
            os.close(descriptor)

    def __del__(self) -> None:
        self.close()

    def _size(self) -> int:
        return os.fstat(self._descriptor).st_size

    def _write_all(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self._descriptor, view) :]


class _FixedDirectoryFile:
    """Holds one descriptor. The size never changes, so a sync writes data and no metadata."""

    _descriptor = -1

    def __init__(self, name: str, path: Path, flags: int) -> None:
        self._name = name
        self._descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | flags, 0o644)
        self._size = os.fstat(self._descriptor).st_size

    def allocate(self, size: int) -> None:
        os.posix_fallocate(self._descriptor, 0, size)
        os.fsync(self._descriptor)
        self._size = size

    @property
    def name(self) -> str:
        return self._name

    @property
    def size(self) -> int:
        return self._size

    def write(self, offset: int, data: bytes) -> None:
        if offset < 0 or offset + len(data) > self._size:
            raise MisuseError(f"cannot write {len(data)} bytes at {offset} of {self._name!r}: it is shorter")
        try:
            written = os.pwrite(self._descriptor, data, offset)
            while written < len(data):
                written += os.pwrite(self._descriptor, memoryview(data)[written:], offset + written)
        except OSError as error:
            raise _ours(error, "write", self._name) from error

    def read(self, offset: int, size: int) -> bytes:
        with _translated("read", self._name):
            return os.pread(self._descriptor, size, offset)

    def sync(self) -> None:
        try:
            os.fdatasync(self._descriptor)
        except OSError as error:
            raise _ours(error, "sync", self._name) from error

    def close(self) -> None:
        if self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1
            os.close(descriptor)

    def __del__(self) -> None:
        self.close()


@contextmanager
def _translated(operation: str, name: str) -> Iterator[None]:
    """Raise our errors instead of OSError; FileNotFoundError passes through."""
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        raise _ours(error, operation, name) from error


def _ours(error: OSError, operation: str, name: str) -> DiskFullError | DiskFailedError:
    if error.errno in _FULL:
        return DiskFullError(f"the disk is full: cannot {operation} {name}")
    return DiskFailedError(operation, name, os.strerror(error.errno or 0))
