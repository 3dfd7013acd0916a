"""Write small files that are never half written."""

from __future__ import annotations

from equipoise.disk.contract import Disk

__all__ = ["write_atomically"]

TEMPORARY_SUFFIX = ".new"


def write_atomically(disk: Disk, name: str, data: bytes) -> None:
    """Give a file new content: after a crash at any moment it has the old content or the new.

    On return the new content is durable. On an error the old content stays; a leftover with the suffix
    `.new` does no harm and is written over next time.
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
