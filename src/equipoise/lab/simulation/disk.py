"""A disk that implements the contract of `equipoise.disk` and nothing beyond it.

It keeps the content that programs see and the content after a crash. A crash keeps a random prefix of the
unsynced bytes of each file, random sectors of the unsynced writes to fixed files, and a random prefix of the unsynced
directory changes. On request the disk is full, fails operations, loses sectors, or flips bits. A failed sync loses the
data that it covers, even if later syncs succeed, as on Linux.

A sync called through `run_in_executor`, as in a thread, takes virtual time: its data is durable at its end, so that
crashes happen before, during and after it. A sync called in the loop takes no time. A lying sync returns in time and
makes nothing durable.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import cached_property
from random import Random
from typing import TYPE_CHECKING, Protocol

from equipoise.disk.contract import DiskRoom, File, FixedFile, check_name
from equipoise.errors import DiskFailedError, DiskFullError, MisuseError
from equipoise.lab.simulation.fixed_file import FixedContent, SimulatedFixedFile
from equipoise.lab.simulation.trace import TraceKind

if TYPE_CHECKING:
    from equipoise.lab.simulation.cpu import Cpu
    from equipoise.lab.simulation.loop import ExecutorCall

__all__ = ["SimulatedDisk"]


class _Machine(Protocol):
    """The host that the disk is in."""

    @property
    def name(self) -> str: ...
    @property
    def number(self) -> int: ...
    @property
    def cpu(self) -> Cpu | None: ...


class _Record(Protocol):
    """The record of faults."""

    @property
    def faults(self) -> Counter[str]: ...
    @property
    def executor_call(self) -> ExecutorCall | None: ...
    def record(self, kind: TraceKind, subject: int, *, text: str | None = None, amount: int = 0) -> None: ...


# The size that `DiskRoom` reports for a disk without limit.
ROOM_BYTES_UNLIMITED = 1 << 40


class _Content:
    """The visible bytes and the durable bytes of a growing file."""

    __slots__ = ("durable", "has_lost_sync", "seen")

    def __init__(self) -> None:
        self.seen = bytearray()
        self.durable = bytearray()
        # True after a failed sync: data that was unsynced then does not survive a crash, even after later syncs.
        self.has_lost_sync = False

    def size(self) -> int:
        return len(self.seen)

    def begin_sync(self) -> bytes | None:
        """The content that a sync started now makes durable at its end."""
        return None if self.has_lost_sync else bytes(self.seen)

    def end_sync(self, covered: bytes | None) -> None:
        if covered is not None:
            self.durable = bytearray(covered)

    def flip(self, offset: int, bit: int) -> None:
        self.seen[offset] ^= bit
        if offset < len(self.durable):
            self.durable[offset] ^= bit

    def crash(self, random: Random) -> str | None:
        """Replace the content with its content after a crash. Returns the fault, or None if nothing was unsynced."""
        seen, durable = self.seen, self.durable
        self.has_lost_sync, lost_sync = False, self.has_lost_sync
        if seen == durable:
            return None
        kept = len(durable)
        if seen.startswith(durable):
            if not lost_sync:
                kept += int(random.random() * (len(seen) - len(durable) + 1))
            what = "torn tail" if kept > len(durable) else "lost unsynced"
            self.durable = seen[:kept]
        elif random.random() < 0.5:
            # A truncation without a sync may or may not have reached the disk.
            self.durable = bytearray(seen)
            what = "unsynced truncation kept"
        else:
            what = "unsynced truncation lost"
        self.seen = bytearray(self.durable)
        return what


class SimulatedDisk:
    """Owned by a host; survives its crashes. The fault methods are for tests and scenarios."""

    def __init__(self, host: _Machine, loop: _Record, seed: int) -> None:
        # None means without limit. May be changed at any time.
        self.capacity_bytes: int | None = None
        # Cost of a sync for the host's processor, if it has one, in seconds at speed 1.
        self.sync_cost_s = 0.0
        # Duration of a sync in a thread: drawn between the two.
        self.sync_s_min = 0.0
        self.sync_s_max = 0.0
        # Whether syncs succeed without making data durable.
        self.is_lying = False
        self._host = host
        self._loop = loop
        self._seed = seed
        self._seen: dict[str, _Content | FixedContent] = {}
        self._durable: dict[str, _Content | FixedContent] = {}
        # Directory changes since the last sync_directory: the names after each change.
        self._changes: list[dict[str, _Content | FixedContent]] = []
        self._to_fail: Counter[tuple[str, str | None]] = Counter()
        # Number of crashes: a handle from before a crash is stale.
        self.generation = 0

    @cached_property
    def _random(self) -> Random:
        # Created at the first fault: most hosts of a large world have no disk fault.
        return Random(f"disk {self._host.name} {self._seed}")

    # The contract.

    def open(self, name: str) -> File:
        self.check("open", check_name(name))
        content = self._seen.get(name)
        if content is None:
            content = _Content()
            self._change({**self._seen, name: content})
        if isinstance(content, FixedContent):
            raise MisuseError(f"{name!r} is a file of fixed size: open it with open_fixed")
        return _SimulatedFile(self, name, content)

    def allocate(self, name: str, size: int) -> FixedFile:
        self.check("allocate", check_name(name))
        if name in self._seen:
            raise MisuseError(f"cannot allocate {name!r}: a file of that name exists")
        self.reserve(size)
        content = FixedContent(size)
        self._change({**self._seen, name: content})
        return SimulatedFixedFile(self, name, content)

    def open_fixed(self, name: str) -> FixedFile:
        self.check("open", check_name(name))
        content = self._get(name)
        if not isinstance(content, FixedContent):
            raise MisuseError(f"{name!r} is not a file of fixed size")
        return SimulatedFixedFile(self, name, content)

    def room(self) -> DiskRoom:
        total = ROOM_BYTES_UNLIMITED if self.capacity_bytes is None else self.capacity_bytes
        return DiskRoom(max(0, total - self._used()), total)

    def read(self, name: str) -> bytes:
        self.check("read", check_name(name))
        content = self._get(name)
        return content.read(0, content.size()) if isinstance(content, FixedContent) else bytes(content.seen)

    def names(self) -> list[str]:
        self.check("names", "")
        return sorted(self._seen)

    def rename(self, old: str, new: str) -> None:
        self.check("rename", check_name(old))
        check_name(new)
        after = {name: content for name, content in self._seen.items() if name != old}
        after[new] = self._get(old)
        self._change(after)

    def remove(self, name: str) -> None:
        self.check("remove", check_name(name))
        self._get(name)
        self._change({other: content for other, content in self._seen.items() if other != name})

    def sync_directory(self) -> None:
        self.check("sync_directory", "")
        names, changes = self._seen, len(self._changes)

        def end() -> None:
            self._durable = names
            del self._changes[:changes]

        self.take_time(end)

    # Faults.

    def fail(self, operation: str, name: str | None = None, *, times: int = 1) -> None:
        """Let the next `times` calls of an operation fail with EIO, on one file or on any."""
        self._to_fail[operation, name] += times

    def rot(self, name: str, offset: int | None = None) -> int:
        """Flip one bit of a file, at a byte or at a random one, and return where."""
        content = self._get(name)
        if not content.size():
            raise MisuseError(f"{name!r} is empty: no bit to flip")
        if offset is None:
            offset = int(self._random.random() * content.size())
        content.flip(offset, 1 << int(self._random.random() * 8))
        self._count("bit rot", f"{name}@{offset}")
        return offset

    def lose_sector(self, name: str, offset: int) -> None:
        """Make the sector at this offset of a fixed file unreadable until it is written again."""
        content = self._get(name)
        if not isinstance(content, FixedContent):
            raise MisuseError(f"{name!r} is not a file of fixed size")
        content.lose_sector(offset)
        self._count("lost sector", f"{name}@{offset}")

    def crash(self) -> None:
        """Keep synced data and a random part of unsynced data. The host calls this."""
        self.generation += 1
        states = [self._durable, *self._changes]
        survivor = states[int(self._random.random() * len(states))]
        if survivor is not self._seen and self._changes:
            self._count("lost directory change", "-")
        for name in sorted(survivor):
            what = survivor[name].crash(self._random)
            if what is not None:
                self._count(what, f"{name}@{survivor[name].size()}")
        self._seen = self._durable = dict(survivor)
        self._changes.clear()

    # Called by files.

    def check(self, operation: str, name: str) -> None:
        """Raise if a test or scenario has requested that this call fails."""
        for key in ((operation, name), (operation, None)):
            if self._to_fail[key] > 0:
                self._to_fail[key] -= 1
                self._count("disk failure", f"{operation}:{name}")
                raise DiskFailedError(operation, name, "Input/output error")

    def reserve(self, size: int) -> None:
        """Raise if `size` more bytes do not fit."""
        if self.capacity_bytes is None:
            return
        used = self._used()
        if used + size > self.capacity_bytes:
            self._count("disk full", str(size))
            raise DiskFullError(
                f"no room left on {self._host.name}: {used} of {self.capacity_bytes} bytes used"
            )

    def take_time(self, end: Callable[[], None]) -> None:
        """Perform a sync: `end` makes its data durable, later if the caller runs in an executor."""
        if self.sync_cost_s and self._host.cpu is not None:
            self._host.cpu.charge(self.sync_cost_s)
        if self.is_lying:
            self._loop.faults["lying sync"] += 1
            end = _nothing
        call = self._loop.executor_call
        if call is None or self.sync_s_max <= 0.0:
            end()
            return
        duration_s = self.sync_s_min + self._random.random() * (self.sync_s_max - self.sync_s_min)
        generation = self.generation

        def end_unless_crashed() -> None:
            if self.generation == generation:
                end()

        call.wait(duration_s, end_unless_crashed)

    def _used(self) -> int:
        return sum(content.size() for content in self._seen.values())

    def record_sync(self, name: str, size: int) -> None:
        self._loop.record(TraceKind.SYNC, self._host.number, text=name, amount=size)

    def _get(self, name: str) -> _Content | FixedContent:
        if name not in self._seen:
            raise FileNotFoundError(f"no file {name!r} on the disk of {self._host.name}")
        return self._seen[name]

    def _settle(self) -> None:
        """Apply the finished syncs of the current executor call: a thread waits for its syncs."""
        if self._loop.executor_call is not None:
            self._loop.executor_call.settle()

    def _change(self, after: dict[str, _Content | FixedContent]) -> None:
        self._settle()
        self._seen = after
        self._changes.append(after)

    def _count(self, fault: str, text: str) -> None:
        self._loop.faults[fault] += 1
        self._loop.record(TraceKind.DISK, self._host.number, text=f"{fault.replace(' ', '-')}:{text}")


def _nothing() -> None:
    """The effect of a lying sync."""


class _SimulatedFile:
    """An open handle. Stale after a crash, so that a crashed program cannot write."""

    def __init__(self, disk: SimulatedDisk, name: str, content: _Content) -> None:
        self._disk = disk
        self._name = name
        self._content = content
        self._generation = disk.generation

    @property
    def name(self) -> str:
        return self._name

    def append(self, data: bytes) -> int:
        self._check("append")
        self._disk.reserve(len(data))
        start = len(self._content.seen)
        self._content.seen += data
        return start

    def read(self, offset: int, size: int) -> bytes:
        self._check("read")
        return bytes(self._content.seen[offset : offset + size])

    def size(self) -> int:
        self._check("size")
        return len(self._content.seen)

    def sync(self) -> None:
        try:
            self._check("sync")
        except DiskFailedError:
            self._content.has_lost_sync = True
            raise
        content = self._content
        covered = content.begin_sync()
        self._disk.take_time(lambda: content.end_sync(covered))
        self._disk.record_sync(self._name, len(content.seen))

    def truncate(self, size: int) -> None:
        self._check("truncate")
        if size > len(self._content.seen):
            raise MisuseError(f"cannot truncate {self._name!r} to {size} bytes: the file is shorter")
        del self._content.seen[size:]

    def close(self) -> None:
        """Nothing to release."""

    def _check(self, operation: str) -> None:
        if self._generation != self._disk.generation:
            raise DiskFailedError(operation, self._name, "the handle is from before a crash")
        self._disk.check(operation, self._name)
