"""The operations that durable code may use on a disk.

Two kinds of file: a `File` grows at its end; a `FixedFile` has its whole room from the start and is written at an
offset, which makes its sync cheaper and a full disk impossible while it is written.

Everything is a plain call. `append`, `write`, `read`, `sync`, `truncate`, `rename`, `remove` and
`sync_directory` may block on a real disk, `sync` and `sync_directory` for milliseconds; an event loop
that minds hands them to a thread. `size`, `names`, `room` and `close` do not wait for the medium.

What survives a crash: bytes that `sync` has covered, under a name that `sync_directory` has covered.
Of everything else any part may survive, except that appended bytes survive as a prefix and directory
changes in the order they were made. Of what was written to a fixed file since its last sync any sectors may survive,
a later write without an earlier one, half a sector too. A truncation is certain only after a sync.

Errors: DiskFullError and DiskFailedError, both WorldErrors; FileNotFoundError for a name that is not there.
"""

from __future__ import annotations

import re
from typing import NamedTuple, Protocol

from equipoise.errors import MisuseError

__all__ = ["Disk", "DiskRoom", "File", "FixedFile", "check_name"]

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")


class File(Protocol):
    """An append-only file, open. One writer at a time is the caller's care."""

    @property
    def name(self) -> str: ...

    def append(self, data: bytes) -> int:
        """Add bytes at the end, all or none, and return the offset they begin at."""
        ...

    def read(self, offset: int, size: int) -> bytes:
        """The bytes from `offset` on: `size` of them, or fewer at the end of the file."""
        ...

    def size(self) -> int:
        """Bytes in the file, synced or not."""
        ...

    def sync(self) -> None:
        """Make the file's content durable. After a failure take everything unsynced as lost."""
        ...

    def truncate(self, size: int) -> None:
        """Drop everything from `size` on. A `size` beyond the end is an error of the caller's."""
        ...

    def close(self) -> None:
        """Let go of the file without syncing it."""
        ...


class FixedFile(Protocol):
    """A file of a fixed size, zeros at first, open. One writer at a time is the caller's care."""

    @property
    def name(self) -> str: ...

    @property
    def size(self) -> int: ...

    def write(self, offset: int, data: bytes) -> None:
        """Write bytes at an offset. Beyond the end is an error of the caller's."""
        ...

    def read(self, offset: int, size: int) -> bytes:
        """The bytes from `offset` on: `size` of them, or fewer at the end of the file."""
        ...

    def sync(self) -> None:
        """Make what was written durable (fdatasync). After a failure take everything unsynced as lost."""
        ...

    def close(self) -> None:
        """Let go of the file without syncing it."""
        ...


class DiskRoom(NamedTuple):
    """Room on the medium, for all its users."""

    free_bytes: int
    total_bytes: int

    @property
    def used(self) -> float:
        """The share that is taken, 0 to 1."""
        return 1.0 - self.free_bytes / self.total_bytes if self.total_bytes else 1.0


class Disk(Protocol):
    """One flat directory."""

    def open(self, name: str) -> File:
        """Open a file for appending and reading; it is made if it is not there."""
        ...

    def allocate(self, name: str, size: int) -> FixedFile:
        """Make a file of fixed size with all its room. A file of that name is an error of the caller's.

        Its name and its room are durable after `sync_directory`. Raises DiskFullError and leaves no file then.
        """
        ...

    def open_fixed(self, name: str) -> FixedFile:
        """Open a file of fixed size, with the size that it has."""
        ...

    def room(self) -> DiskRoom: ...

    def read(self, name: str) -> bytes:
        """The whole content of a file."""
        ...

    def names(self) -> list[str]:
        """The names of all files, sorted."""
        ...

    def rename(self, old: str, new: str) -> None:
        """Give a file another name; a file that had it is replaced at once, never half."""
        ...

    def remove(self, name: str) -> None: ...

    def sync_directory(self) -> None:
        """Make all names durable: files made, renamed and removed so far."""
        ...


def check_name(name: str) -> str:
    """Refuse names that are paths, hidden or not portable."""
    if not _NAME.fullmatch(name):
        raise MisuseError(f"file name {name!r} must be letters, digits, dots, dashes and underscores")
    return name
