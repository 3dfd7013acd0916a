"""A file of fixed size on a simulated disk: its visible content, and its content after a crash.

A crash keeps a random subset of the sectors written since the last sync, not necessarily in the order of the writes,
and may tear one of them at any byte. A lost sector cannot be read until it is written again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import Protocol

from equipoise.errors import DiskFailedError, MisuseError

__all__ = ["SECTOR_BYTES", "FixedContent", "SimulatedFixedFile"]

# The unit that a disk writes as a whole, though a crash may tear even a sector.
SECTOR_BYTES = 512


class FixedContent:
    """The visible bytes, the durable bytes, and the writes in between."""

    __slots__ = ("durable", "has_lost_sync", "lost", "seen", "settled", "writes")

    def __init__(self, size: int) -> None:
        self.seen = bytearray(size)
        self.durable = bytearray(size)
        # Writes that no sync has covered, oldest first: offset and bytes.
        self.writes: list[tuple[int, bytes]] = []
        # Number of writes removed from that list since the beginning.
        self.settled = 0
        # Sectors that cannot be read.
        self.lost: set[int] = set()
        # True after a failed sync: data that was unsynced then does not survive a crash, even after later syncs.
        self.has_lost_sync = False

    def size(self) -> int:
        return len(self.seen)

    def write(self, offset: int, data: bytes) -> None:
        self.seen[offset : offset + len(data)] = data
        self.writes.append((offset, data))
        for sector in range(offset // SECTOR_BYTES, -(-(offset + len(data)) // SECTOR_BYTES)):
            self.lost.discard(sector)

    def read(self, offset: int, size: int) -> bytes:
        end = min(offset + size, len(self.seen))
        if self.lost and any(
            sector in self.lost for sector in range(offset // SECTOR_BYTES, -(-end // SECTOR_BYTES))
        ):
            raise DiskFailedError("read", f"sector at {offset}", "Input/output error")
        return bytes(self.seen[offset:end])

    def begin_sync(self) -> int:
        """Number of writes since the beginning that a sync started now makes durable at its end."""
        return 0 if self.has_lost_sync else self.settled + len(self.writes)

    def end_sync(self, covered: int) -> None:
        count = max(0, covered - self.settled)
        for offset, data in self.writes[:count]:
            self.durable[offset : offset + len(data)] = data
        del self.writes[:count]
        self.settled += count

    def flip(self, offset: int, bit: int) -> None:
        self.seen[offset] ^= bit
        self.durable[offset] ^= bit

    def lose_sector(self, offset: int) -> None:
        self.lost.add(offset // SECTOR_BYTES)

    def crash(self, random: Random) -> str | None:
        """Replace the content with its content after a crash. Returns the fault, or None if nothing was unsynced."""
        writes, self.writes = self.writes, []
        self.settled += len(writes)
        lost_sync, self.has_lost_sync = self.has_lost_sync, False
        what: str | None = None
        if writes:
            # Some crashes keep nearly all sectors, some nearly none.
            survival = 0.0 if lost_sync else random.choice((0.0, 0.2, 0.5, 0.8, 1.0))
            what = "lost unsynced" if survival == 0.0 else "torn write"
            for offset, data in _sectors(writes):
                if random.random() < survival:
                    kept = data[: int(random.random() * len(data))] if random.random() < 0.1 else data
                    self.durable[offset : offset + len(kept)] = kept
        self.seen = bytearray(self.durable)
        return what


def _sectors(writes: list[tuple[int, bytes]]) -> Iterator[tuple[int, bytes]]:
    """The writes split at sector boundaries."""
    for offset, data in writes:
        at = 0
        while at < len(data):
            size = SECTOR_BYTES - (offset + at) % SECTOR_BYTES
            yield offset + at, data[at : at + size]
            at += size


class _OwningDisk(Protocol):
    """The calls of an open file to its disk."""

    @property
    def generation(self) -> int: ...
    def check(self, operation: str, name: str) -> None: ...
    def take_time(self, end: Callable[[], None]) -> None: ...
    def record_sync(self, name: str, size: int) -> None: ...


class SimulatedFixedFile:
    """An open handle. Stale after a crash, so that a crashed program cannot write."""

    def __init__(self, disk: _OwningDisk, name: str, content: FixedContent) -> None:
        self._disk = disk
        self._name = name
        self._content = content
        self._generation = disk.generation

    @property
    def name(self) -> str:
        return self._name

    @property
    def size(self) -> int:
        return self._content.size()

    def write(self, offset: int, data: bytes) -> None:
        self._check("write")
        if offset < 0 or offset + len(data) > self.size:
            raise MisuseError(f"cannot write {len(data)} bytes at {offset} of {self._name!r}: beyond its end")
        self._content.write(offset, bytes(data))

    def read(self, offset: int, size: int) -> bytes:
        self._check("read")
        return self._content.read(offset, size)

    def sync(self) -> None:
        content = self._content
        try:
            self._check("sync")
        except DiskFailedError:
            content.has_lost_sync = True
            raise
        covered = content.begin_sync()
        self._disk.take_time(lambda: content.end_sync(covered))
        self._disk.record_sync(self._name, content.size())

    def close(self) -> None:
        """Nothing to release."""

    def _check(self, operation: str) -> None:
        if self._generation != self._disk.generation:
            raise DiskFailedError(operation, self._name, "the handle is from before a crash")
        self._disk.check(operation, self._name)
