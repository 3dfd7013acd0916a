"""The operations that durable code may use on a disk.

Two kinds of file: a `File` grows at its end. A `FixedFile` is allocated at its full size and written at offsets: its
sync is cheaper, and a write to it cannot fail because the disk is full.

All operations are blocking calls. On a real disk `append`, `write`, `read`, `sync`, `truncate`, `rename`, `remove` and
`sync_directory` may block, `sync` and `sync_directory` for milliseconds; an event loop can run them in a thread.
`size`, `names`, `room` and `close` do not wait for the medium.

After a crash a file has at least the bytes that `sync` covered, under a name that `sync_directory` covered. Any part of
the rest may survive too, with two rules: appended bytes survive as a prefix, and directory changes survive in the order
in which they were made. Of unsynced writes to a fixed file any sectors may survive: a later write without an earlier
one, or half a sector. A truncation is durable only after a sync.

Errors: DiskFullError and DiskFailedError, both WorldErrors; FileNotFoundError for a missing file.
"""

from __future__ import annotations

import re
from typing import NamedTuple, Protocol

from equipoise.errors import MisuseError

__all__ = ["Disk", "DiskRoom", "File", "FixedFile", "check_name"]

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")


class File(Protocol):
    """An open append-only file. The caller ensures that there is one writer at a time."""

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
        """Make the content durable. After a failure treat all unsynced bytes as lost."""
        ...

    def truncate(self, size: int) -> None:
        """Remove everything from `size` on. Raises MisuseError if `size` is beyond the end."""
        ...

    def close(self) -> None:
        """Close the file without a sync."""
        ...


class FixedFile(Protocol):
    """An open file of a fixed size, initially zeros. The caller ensures that there is one writer at a time."""

    @property
    def name(self) -> str: ...

    @property
    def size(self) -> int: ...

    def write(self, offset: int, data: bytes) -> None:
        """Write bytes at an offset. Raises MisuseError beyond the end."""
        ...

    def read(self, offset: int, size: int) -> bytes:
        """The bytes from `offset` on: `size` of them, or fewer at the end of the file."""
        ...

    def sync(self) -> None:
        """Make the writes durable (fdatasync). After a failure treat all unsynced bytes as lost."""
        ...

    def close(self) -> None:
        """Close the file without a sync."""
        ...


class DiskRoom(NamedTuple):
    """Space on the medium, shared by all its users."""

    free_bytes: int
    total_bytes: int

    @property
    def used(self) -> float:
        """The share in use, 0 to 1."""
        return 1.0 - self.free_bytes / self.total_bytes if self.total_bytes else 1.0


class Disk(Protocol):
    """One flat directory."""

    def open(self, name: str) -> File:
        """Open a file for appending and reading. Creates it if it is missing."""
        ...

    def allocate(self, name: str, size: int) -> FixedFile:
        """Create a file of a fixed size with all its space allocated. Raises MisuseError if the file exists.

        Its name and space are durable after `sync_directory`. Raises DiskFullError, without leaving a file.
        """
        ...

    def open_fixed(self, name: str) -> FixedFile:
        """Open an existing file of a fixed size."""
        ...

    def room(self) -> DiskRoom: ...

    def read(self, name: str) -> bytes:
        """The whole content of a file."""
        ...

    def names(self) -> list[str]:
        """The names of all files, sorted."""
        ...

    def rename(self, old: str, new: str) -> None:
        """Rename a file. It replaces a file of the new name atomically."""
        ...

    def remove(self, name: str) -> None: ...

    def sync_directory(self) -> None:
        """Make all names durable: files created, renamed and removed so far."""
        ...


def check_name(name: str) -> str:
    """Refuse names that are paths, hidden or not portable."""
    if not _NAME.fullmatch(name):
        raise MisuseError(f"file name {name!r} must be letters, digits, dots, dashes and underscores")
    return name
