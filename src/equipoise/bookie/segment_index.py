"""The index of a sealed segment: offsets of its entries, in a file that can be rebuilt from the segment.

The head lists the ledgers of the segment, with key, fence and range of entries, and the first entry of each block.
Blocks of sorted records follow, each with its checksum. Only the head is kept in memory: 53 bytes per ledger and 16 per
block of 170 entries. A damaged block never counts as "no entry".
"""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple
from zlib import crc32

from equipoise.disk import Disk
from equipoise.errors import DamagedError

__all__ = ["IndexRow", "Located", "SegmentIndex", "encode_index"]

_MAGIC = b"EqIx1\0\0\0"
_HEAD = struct.Struct(">8sIIII")
_ROW = struct.Struct(">q20sBqqq")
_RECORD = struct.Struct(">qqII")
_KEY = struct.Struct(">qq")
_CRC = struct.Struct(">I")
_BLOCK_HEAD = struct.Struct(">II")
_BLOCK_BYTES = 4096
_BLOCK_RECORDS = (_BLOCK_BYTES - _BLOCK_HEAD.size) // _RECORD.size


class IndexRow(NamedTuple):
    """A ledger of the segment. `first` > `last`: the segment has only its key and fence."""

    ledger: int
    key: bytes
    is_fenced: bool
    first: int
    last: int
    # Bytes of its frames in the segment.
    frame_bytes: int


class Located(NamedTuple):
    """Offset of a frame and size of its body."""

    offset: int
    size: int


def encode_index(
    segment: int, rows: Iterable[IndexRow], records: Mapping[int, Mapping[int, Located]]
) -> bytes:
    """Encode an index. `records`: by ledger and entry."""
    table = sorted(rows)
    ordered = [
        (row.ledger, entry, *records[row.ledger][entry])
        for row in table
        for entry in sorted(records.get(row.ledger, ()))
    ]
    blocks = [ordered[at : at + _BLOCK_RECORDS] for at in range(0, len(ordered), _BLOCK_RECORDS)]
    head = b"".join(
        (
            *(_ROW.pack(*row) for row in table),
            *(_KEY.pack(block[0][0], block[0][1]) for block in blocks),
        )
    )
    begin = _HEAD.pack(_MAGIC, segment, len(table), len(blocks), len(head))
    return b"".join(
        (begin, head, _CRC.pack(crc32(head, crc32(begin))), *map(_block, range(len(blocks)), blocks))
    )


def _block(number: int, records: list[tuple[int, int, int, int]]) -> bytes:
    body = b"".join(_RECORD.pack(*record) for record in records)
    # The checksum includes the block number: a block at another position is invalid.
    return (_BLOCK_HEAD.pack(crc32(body, number), len(records)) + body).ljust(_BLOCK_BYTES, b"\0")


class SegmentIndex:
    """The opened index of a segment. Raises DamagedError if it cannot be read."""

    def __init__(self, disk: Disk, name: str, segment: int) -> None:
        self._name = name
        self._file = disk.open(name)
        begin = self._file.read(0, _HEAD.size)
        if len(begin) < _HEAD.size:
            raise DamagedError(name, "it has no head")
        magic, number, rows, blocks, size = _HEAD.unpack(begin)
        head = self._file.read(_HEAD.size, size)
        crc = self._file.read(_HEAD.size + size, _CRC.size)
        if magic != _MAGIC or number != segment or crc != _CRC.pack(crc32(head, crc32(begin))):
            raise DamagedError(name, "its head is not valid")
        self._begin = _HEAD.size + size + _CRC.size
        self._read_head(head, rows, blocks)
        # The block read last, decoded: reads of a ledger are sequential.
        self._block_number = -1
        self._block: dict[tuple[int, int], Located] = {}

    def _read_head(self, head: bytes, rows: int, blocks: int) -> None:
        table = [_ROW.unpack_from(head, at * _ROW.size) for at in range(rows)]
        self._ledgers = array("q", (row[0] for row in table))
        self._keys = b"".join(row[1] for row in table)
        self._fenced = bytes(row[2] for row in table)
        self._firsts = array("q", (row[3] for row in table))
        self._lasts = array("q", (row[4] for row in table))
        self._bytes = array("q", (row[5] for row in table))
        keys = [_KEY.unpack_from(head, rows * _ROW.size + at * _KEY.size) for at in range(blocks)]
        self._block_ledgers = array("q", (key[0] for key in keys))
        self._block_entries = array("q", (key[1] for key in keys))

    def rows(self) -> Iterator[IndexRow]:
        for at, ledger in enumerate(self._ledgers):
            yield IndexRow(
                ledger,
                self._keys[at * 20 : at * 20 + 20],
                bool(self._fenced[at]),
                self._firsts[at],
                self._lasts[at],
                self._bytes[at],
            )

    def find(self, ledger: int, entry: int) -> Located | None:
        """The location of the entry; None if the segment certainly lacks it."""
        at = bisect_left(self._ledgers, ledger)
        if at == len(self._ledgers) or self._ledgers[at] != ledger:
            return None
        if not self._firsts[at] <= entry <= self._lasts[at]:
            return None
        return self._load(self._block_of(ledger, entry)).get((ledger, entry))

    def records(self) -> Iterator[tuple[int, int, Located]]:
        """All records: ledger, entry, location."""
        for number in range(len(self._block_ledgers)):
            for (ledger, entry), located in list(self._load(number).items()):
                yield ledger, entry, located

    def close(self) -> None:
        self._file.close()

    def _block_of(self, ledger: int, entry: int) -> int:
        """The last block that begins at or before the entry."""
        low, high = 0, len(self._block_ledgers)
        while low < high:
            middle = (low + high) // 2
            if (self._block_ledgers[middle], self._block_entries[middle]) <= (ledger, entry):
                low = middle + 1
            else:
                high = middle
        return low - 1

    def _load(self, number: int) -> dict[tuple[int, int], Located]:
        if number == self._block_number:
            return self._block
        if number < 0:
            return {}
        data = self._file.read(self._begin + number * _BLOCK_BYTES, _BLOCK_BYTES)
        if len(data) < _BLOCK_BYTES:
            raise DamagedError(self._name, f"block {number} is cut short")
        crc, count = _BLOCK_HEAD.unpack_from(data)
        body = data[_BLOCK_HEAD.size : _BLOCK_HEAD.size + count * _RECORD.size]
        if count > _BLOCK_RECORDS or crc32(body, number) != crc:
            raise DamagedError(self._name, f"block {number} is not valid")
        self._block = {
            (ledger, entry): Located(offset, size)
            for ledger, entry, offset, size in _RECORD.iter_unpack(body)
        }
        self._block_number = number
        return self._block
