"""The bounded ring of a hub's telemetry records, read by sequence number.

Sequences begin at 0 with each incarnation and have no holes. The oldest records are dropped by age and by size, and a
reader that was away sees from `oldest` how many it missed.

A block holds the records of one slice of one window: all of one kind, at consecutive sequences. Numbers are stored
in the narrowest array that holds them, a constant column as its value, names as one string of bytes with offsets. A
record of a topic takes some 25 bytes so, against 400 as Python objects.

Numbers in a row are processed as one long integer, eight bytes each: then one subtraction subtracts them all. Python
takes 25 ns to subtract two numbers, and a nanosecond if they are parts of a long one. Packing and unpacking cost ten
each, in all still half of the time of single subtractions. Always true: none of the numbers is negative or reaches 2⁶³,
so that no subtraction borrows from a neighbour.
"""

from __future__ import annotations

import sys
from array import array
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import NamedTuple, TypeGuard

from equipoise.telemetry.column import RecordKind
from equipoise.telemetry.schema import columns_of

__all__ = [
    "BLOCK_BYTES",
    "OFFSET",
    "Block",
    "NameColumn",
    "Numbers",
    "Part",
    "TelemetryRing",
    "Values",
    "counting",
    "grown",
    "is_each",
    "narrow",
    "packed",
    "size_bytes_of",
    "widened",
]

# The size of a block with empty columns, including an array for each of them.
BLOCK_BYTES = 600
_COLUMN_BYTES = 64
# The array's type code for four bytes, which Arrow uses for offsets.
OFFSET = "i"

_ORDER = {kind: tuple(column.name for column in columns_of(kind)) for kind in RecordKind}
# The columns that a block does not hold: they are equal in all blocks, or follow from its place in the ring.
_IMPLIED = frozenset({"kind", "hub", "incarnation", "sequence", "time", "window_us"})
_HELD = {kind: tuple(name for name in names if name not in _IMPLIED) for kind, names in _ORDER.items()}


@dataclass(frozen=True, slots=True)
class NameColumn:
    """Concatenated byte strings. A missing one has the length 0 and no bit in `present`."""

    joined: bytes
    # Offsets of the beginnings, and of the end: as in Arrow, so that unchanged names are measured once.
    offsets: array[int]
    # A bit for each name, the first the lowest; -1: all are present.
    present: int = -1

    @classmethod
    def of(cls, names: Sequence[bytes]) -> NameColumn:
        return cls(b"".join(names), array(OFFSET, accumulate(map(len, names), initial=0)))

    @classmethod
    def of_optional(cls, names: Sequence[bytes | None]) -> NameColumn:
        present = _present([name is not None for name in names])
        return replace(cls.of([name or b"" for name in names]), present=present)

    def split(self) -> list[bytes]:
        return [self.joined[start:end] for start, end in pairwise(self.offsets)]


@dataclass(frozen=True, slots=True)
class Numbers:
    """Numbers of which some are missing: those are 0 and have no bit in `present`. None is negative."""

    values: Sequence[int]
    # A bit for each number, the first the lowest.
    present: int

    @classmethod
    def of_optional(cls, numbers: Sequence[int | None]) -> Numbers:
        present = _present([number is not None for number in numbers])
        return cls(narrow([number or 0 for number in numbers]), present)


# One value for all records, or one for each.
Values = int | float | str | bytes | None | Sequence[int] | NameColumn | Numbers


class Part(NamedTuple):
    """Some of a block's records, for reading."""

    kind: RecordKind
    sequences: Sequence[int]
    time_us: int | Sequence[int]
    window_us: int
    # By column.
    values: Mapping[str, Values]

    def head(self, count: int) -> Part:
        """The first `count` of them."""
        values = {name: _cut(column, 0, count) for name, column in self.values.items()}
        time_us = self.time_us if isinstance(self.time_us, int) else self.time_us[:count]
        return self._replace(sequences=self.sequences[:count], time_us=time_us, values=values)


@dataclass(frozen=True, slots=True)
class Block:
    """Records `first` to `first + count`. Their time is the end of the window, or `time_us` has one for each."""

    kind: RecordKind
    first: int
    count: int
    time_us: int | Sequence[int]
    window_us: int
    # In the schema's order, without the common columns of all blocks.
    values: tuple[Values, ...]
    # The columns that are not null in all of its records; the same object in all blocks with the same columns.
    filled: frozenset[str]

    @classmethod
    def of(
        cls,
        kind: RecordKind,
        count: int,
        values: Mapping[str, Values],
        *,
        time_us: int | Sequence[int],
        window_us: int,
    ) -> Block:
        """A block outside a ring. A column that is not given is null."""
        assert values.keys() <= set(_HELD[kind]), f"{kind} has no {values.keys() - set(_HELD[kind])}"
        filled = _interned(frozenset([name for name, column in values.items() if column is not None]))
        return cls(kind, 0, count, time_us, window_us, tuple(map(values.get, _HELD[kind])), filled)

    @property
    def end(self) -> int:
        return self.first + self.count

    @property
    def latest_us(self) -> int:
        return self.time_us if isinstance(self.time_us, int) else max(self.time_us)

    @property
    def held(self) -> tuple[Values, ...]:
        """The objects that it keeps alive. Blocks of windows without changes share columns."""
        return (self.time_us, *self.values)

    def topics(self) -> list[bytes] | None:
        """The topic of each record; None for records about other subjects."""
        if "topic" not in _HELD[self.kind]:
            return None
        names = self.values[_HELD[self.kind].index("topic")]
        if isinstance(names, NameColumn):
            return names.split()
        assert isinstance(names, bytes), "a topic is named by bytes"
        return [names] * self.count

    def part(self, start: int, stop: int) -> Part:
        """The records from `start` to `stop`, counted within the block."""
        if start == 0 and stop == self.count:
            return self._part(range(self.first, self.end), self.time_us, self.values)
        values = (_cut(column, start, stop) for column in self.values)
        times = self.time_us if isinstance(self.time_us, int) else self.time_us[start:stop]
        return self._part(range(self.first + start, self.first + stop), times, values)

    def chosen(self, rows: Sequence[int]) -> Part:
        """Only these records, counted within the block, in order."""
        values = (_pick(column, rows) for column in self.values)
        times = self.time_us if isinstance(self.time_us, int) else [self.time_us[row] for row in rows]
        return self._part([self.first + row for row in rows], times, values)

    def _part(self, sequences: Sequence[int], time_us: int | Sequence[int], values: Iterable[Values]) -> Part:
        return Part(
            self.kind, sequences, time_us, self.window_us, dict(zip(_HELD[self.kind], values, strict=True))
        )


def is_each(values: Values) -> TypeGuard[Sequence[int]]:
    """Whether these are numbers, one for each record."""
    return isinstance(values, Sequence) and not isinstance(values, str | bytes)


def size_bytes_of(values: Values) -> int:
    if isinstance(values, array):
        return _COLUMN_BYTES + values.itemsize * len(values)
    if isinstance(values, NameColumn):
        return sys.getsizeof(values.joined) + _COLUMN_BYTES + size_bytes_of(values.offsets)
    if isinstance(values, Numbers):
        return sys.getsizeof(values.present) + _COLUMN_BYTES + size_bytes_of(values.values)
    return sys.getsizeof(values)


@lru_cache(maxsize=256)
def _interned(names: frozenset[str]) -> frozenset[str]:
    """The first equal one: blocks have few sets of columns, and a set takes more memory than a block."""
    return names


def _present(claims: Sequence[bool]) -> int:
    """A bit for each flag, the first the lowest. Via text, in a hundredth of the time of summing powers."""
    return int("".join(["01"[claim] for claim in reversed(claims)]) or "0", 2)


def _cut(values: Values, start: int, stop: int) -> Values:
    if isinstance(values, NameColumn):
        first, offsets = values.offsets[start], values.offsets[start : stop + 1]
        if first:
            offsets = array(OFFSET, [offset - first for offset in offsets])
        present = values.present if values.present < 0 else _bits(values.present, start, stop)
        return NameColumn(values.joined[first : values.offsets[stop]], offsets, present)
    if isinstance(values, Numbers):
        return Numbers(values.values[start:stop], _bits(values.present, start, stop))
    return values[start:stop] if is_each(values) else values


def _bits(present: int, start: int, stop: int) -> int:
    return (present >> start) & ((1 << stop - start) - 1)


def _pick(values: Values, rows: Sequence[int]) -> Values:
    if isinstance(values, NameColumn):
        names = values.split()
        return NameColumn.of_optional([names[row] if values.present >> row & 1 else None for row in rows])
    if isinstance(values, Numbers):
        return Numbers.of_optional(
            [values.values[row] if values.present >> row & 1 else None for row in rows]
        )
    if is_each(values):
        return [values[row] for row in rows]
    return values


class TelemetryRing:
    """Always true: it holds exactly the records from `oldest` to `end`; `bytes` is the total size of its blocks.

    The newest block stays, whatever its size: blocks are small against any bound.
    """

    def __init__(self, incarnation: int, *, retention_s: float, bytes_max: int) -> None:
        self.incarnation = incarnation
        self._keep_us = int(retention_s * 1_000_000)
        self._bytes_max = bytes_max
        self._blocks: deque[Block] = deque()
        # By the identity of each column, how many blocks share it.
        self._shared: dict[int, int] = {}
        self._filled: Counter[frozenset[str]] = Counter()
        self.end = 0
        self.bytes = 0

    def __len__(self) -> int:
        return self.end - self.oldest

    @property
    def oldest(self) -> int:
        """The sequence of the first record in the ring; `end` if it is empty."""
        return self._blocks[0].first if self._blocks else self.end

    @property
    def filled(self) -> frozenset[str]:
        """The columns that some block fills; without those of all records."""
        return frozenset().union(*+self._filled)

    def append(self, block: Block) -> None:
        """Assign sequences to the block's records. Blocks are in order of time, if the clock does not go back."""
        if not block.count:
            return
        self._blocks.append(replace(block, first=self.end))
        self.end += block.count
        self._count(block)
        self._trim(block.latest_us - self._keep_us)

    def read(self, sequence: int) -> Iterator[tuple[Block, int]]:
        """Blocks from the one with the record `sequence` on; and the index of that record in the first block.

        Dropped records are left out. The ring may be appended to during the iteration.
        """
        behind: list[Block] = []
        for block in reversed(self._blocks):
            if block.end <= sequence:
                break
            behind.append(block)
        for block in reversed(behind):
            yield block, max(0, sequence - block.first)

    def backwards(self) -> Iterator[Block]:
        """From the newest block on. The ring must not be appended to meanwhile."""
        return iter(reversed(self._blocks))

    def _trim(self, before_us: int) -> None:
        while len(self._blocks) > 1 and (
            self.bytes > self._bytes_max or self._blocks[0].latest_us < before_us
        ):
            self._discount(self._blocks.popleft())

    def _count(self, block: Block) -> None:
        self.bytes += BLOCK_BYTES
        self._filled[block.filled] += 1
        for column in block.held:
            blocks = self._shared.get(id(column), 0)
            self._shared[id(column)] = blocks + 1
            if not blocks:
                self.bytes += size_bytes_of(column)

    def _discount(self, block: Block) -> None:
        self.bytes -= BLOCK_BYTES
        self._filled[block.filled] -= 1
        for column in block.held:
            blocks = self._shared[id(column)] - 1
            if blocks:
                self._shared[id(column)] = blocks
            else:
                del self._shared[id(column)]
                self.bytes -= size_bytes_of(column)


# --- numbers in a row -------------------------------------------------------------------------------------------------

_WIDTH = 8
_CODES = {1: "B", 2: "H", 4: "I"}


def packed(numbers: Sequence[int]) -> int:
    return int.from_bytes(array("Q", numbers).tobytes(), sys.byteorder)


def grown(after: int, before: int, count: int) -> array[int]:
    """The growth of each of `count` packed numbers, in the least number of bytes for the largest."""
    growth = after - before
    assert not growth & _beyond(63, count), "a counter has become less"
    wide = growth.to_bytes(_WIDTH * count, sys.byteorder)
    for width, code in _CODES.items():
        if not growth & _beyond(8 * width, count):
            return array(code, _narrowed(wide, width))
    return array("Q", wide)


def counting(first: int, count: int) -> bytes:
    """This many numbers from `first` on, of eight bytes each."""
    steps, ones = _steps(count)
    return (steps + first * ones).to_bytes(_WIDTH * count, sys.byteorder)


def narrow(numbers: Sequence[int]) -> array[int]:
    """The same numbers, none negative, in the least number of bytes each for the largest."""
    greatest = max(numbers, default=0)
    code = "B" if greatest < 1 << 8 else "H" if greatest < 1 << 16 else "I" if greatest < 1 << 32 else "Q"
    return array(code, numbers)


def widened(numbers: array[int]) -> bytes:
    """As numbers of eight bytes: the n-th byte of all at once, five times as fast as one by one."""
    width = numbers.itemsize
    if width == _WIDTH:
        return numbers.tobytes()
    narrow, wide = numbers.tobytes(), bytearray(_WIDTH * len(numbers))
    first = _first(width)
    for i in range(width):
        wide[first + i :: _WIDTH] = narrow[i::width]
    return bytes(wide)


def _narrowed(wide: bytes, width: int) -> bytes:
    """The reverse: numbers of eight bytes, of which only the lowest are used, as numbers of that size."""
    first = _first(width)
    if width == 1:
        return wide[first::_WIDTH]
    narrow = bytearray(len(wide) // _WIDTH * width)
    for i in range(width):
        narrow[i::width] = wide[first + i :: _WIDTH]
    return bytes(narrow)


def _first(width: int) -> int:
    """The indices of the bytes in eight that a small number uses."""
    return 0 if sys.byteorder == "little" else _WIDTH - width


@lru_cache(maxsize=64)
def _beyond(bits: int, count: int) -> int:
    """A mask of the bits, in each of `count` numbers, beyond this many."""
    above = (1 << 8 * _WIDTH) - (1 << bits)
    return int.from_bytes(above.to_bytes(_WIDTH, sys.byteorder) * count, sys.byteorder)


@lru_cache(maxsize=64)
def _steps(count: int) -> tuple[int, int]:
    """The numbers from 0 on, and as many ones."""
    return packed(range(count)), packed([1] * count)
