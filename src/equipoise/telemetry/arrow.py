"""Write records as an Arrow IPC stream, without Arrow.

pyarrow would do it, at the price of 45 MB for every hub and of a stall of 50 ms during its import, which telemetry
should detect, not cause (docs/decisions/0007). Writing takes little code: a stream is a schema and then batches, each a
table of lengths and offsets followed by the columns' bytes. Readers use pyarrow.

A stream has the columns that its writer selects, beside those that every record fills: the description of an all-null
column costs as much as that of a number.

A batch holds the records of several blocks. Buffers of zeros only, of which a null column has two, share one place in
the batch; so do buffers that repeat the same number.
https://arrow.apache.org/docs/format/Columnar.html#serialization-and-interprocess-communication-ipc

Messages are FlatBuffers, of which this module writes the few kinds that Arrow uses. A table is written as its own
bytes, followed by its referents: offsets only point forward, so referents need not be known first. All numbers are
little-endian and aligned to their size. https://flatbuffers.dev/internals
"""

from __future__ import annotations

import struct
import sys
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, repeat

from equipoise.telemetry.column import EVERY_KIND, Column, ColumnType, RecordKind
from equipoise.telemetry.ring import OFFSET, NameColumn, Numbers, Part, Values, counting, is_each, widened
from equipoise.telemetry.schema import COLUMNS, columns_of

__all__ = ["END", "Field", "FlatTable", "Scalar", "Structs", "batch", "flatbuffer", "schema_message"]


@dataclass(frozen=True, slots=True)
class Scalar:
    """A number, in struct's letter for its type."""

    code: str
    value: int


@dataclass(frozen=True, slots=True)
class Structs:
    """A vector of structs of 64-bit numbers: all numbers in one row, and the number of them in each struct."""

    numbers: Sequence[int]
    width: int


@dataclass(frozen=True, slots=True)
class FlatTable:
    """Fields by their index in the schema; None for an omitted one."""

    fields: Sequence[Field | None]


# A string, and a vector of tables, are represented by themselves.
Field = Scalar | Structs | FlatTable | str | Sequence[FlatTable]

_OFFSET = "I"


def flatbuffer(root: FlatTable) -> bytes:
    """The buffer with its root; to be placed at a multiple of eight."""
    buffer = bytearray(4)
    _point(buffer, 0, _write_table(buffer, root))
    _align(buffer, 8)
    return bytes(buffer)


def _write_table(buffer: bytearray, table: FlatTable) -> int:
    """The offset of the table. Its referents follow it."""
    codes = tuple(map(_code, table.fields))
    places, size = _layout(codes)
    _align(buffer, 2)
    vtable = len(buffer)
    buffer += struct.pack(f"<HH{len(codes)}H", 4 + 2 * len(codes), size, *places)
    _align(buffer, 8)
    start = len(buffer)
    buffer += bytes(size)
    struct.pack_into("<i", buffer, start, start - vtable)
    for field, place in zip(table.fields, places, strict=True):
        if field is None:
            continue
        if isinstance(field, Scalar):
            struct.pack_into("<" + field.code, buffer, start + place, field.value)
        else:
            _point(buffer, start + place, _write(buffer, field))
    return start


def _write(buffer: bytearray, field: Structs | FlatTable | str | Sequence[FlatTable]) -> int:
    if isinstance(field, FlatTable):
        return _write_table(buffer, field)
    if isinstance(field, str):
        return _write_string(buffer, field)
    if isinstance(field, Structs):
        return _write_structs(buffer, field)
    _align(buffer, 4)
    start = len(buffer)
    buffer += struct.pack("<I", len(field)) + bytes(4 * len(field))
    for i, table in enumerate(field):
        _point(buffer, start + 4 + 4 * i, _write_table(buffer, table))
    return start


def _write_string(buffer: bytearray, text: str) -> int:
    encoded = text.encode()
    _align(buffer, 4)
    start = len(buffer)
    buffer += struct.pack("<I", len(encoded)) + encoded + b"\0"
    return start


def _write_structs(buffer: bytearray, structs: Structs) -> int:
    # The numbers begin at a multiple of eight, right after their count.
    _align(buffer, 8)
    buffer += bytes(4)
    start = len(buffer)
    count = len(structs.numbers)
    buffer += struct.pack(f"<I{count}q", count // structs.width, *structs.numbers)
    return start


@lru_cache(maxsize=64)
def _layout(codes: tuple[str | None, ...]) -> tuple[list[int], int]:
    """The offset of each field within its table, after the offset of the vtable, 0: omitted; and the table's size."""
    places, size = [], 4
    for code in codes:
        if code is None:
            places.append(0)
            continue
        width = struct.calcsize("<" + code)
        size += -size % width
        places.append(size)
        size += width
    return places, size


def _code(field: Field | None) -> str | None:
    if field is None:
        return None
    return field.code if isinstance(field, Scalar) else _OFFSET


def _point(buffer: bytearray, at: int, target: int) -> None:
    struct.pack_into("<I", buffer, at, target - at)


def _align(buffer: bytearray, width: int) -> None:
    buffer += bytes(-len(buffer) % width)


_CONTINUATION = b"\xff\xff\xff\xff"
# Follows the last batch.
END = _CONTINUATION + bytes(4)

_VERSION_5 = 4
_SCHEMA, _RECORD_BATCH = 1, 3
_LITTLE, _BIG = 0, 1
_MICROSECOND = 2
_DOUBLE_PRECISION = 2

# Arrow's number for the type, and its parameters.
_TYPES = {
    ColumnType.LONG: (2, FlatTable([Scalar("i", 64), Scalar("B", 1)])),
    ColumnType.DOUBLE: (3, FlatTable([Scalar("h", _DOUBLE_PRECISION)])),
    ColumnType.BINARY: (4, FlatTable([])),
    ColumnType.STRING: (5, FlatTable([])),
    ColumnType.TIMESTAMP: (10, FlatTable([Scalar("h", _MICROSECOND), "UTC"])),
}
# The types of a value that all records share.
_ONES = (int, float, str, bytes, type(None))
# By column, struct's letter for its numbers.
_TEXT = "s"
_LETTERS = {ColumnType.STRING: _TEXT, ColumnType.BINARY: _TEXT, ColumnType.DOUBLE: "d"}
_FILLED = {kind: frozenset(column.name for column in columns_of(kind)) for kind in RecordKind}


@lru_cache(maxsize=64)
def _chosen(names: frozenset[str]) -> tuple[Column, ...]:
    """These columns and those of every record, in the schema's order."""
    return tuple(column for column in COLUMNS if column.name in names or column.kinds is EVERY_KIND)


@lru_cache(maxsize=64)
def schema_message(names: frozenset[str]) -> bytes:
    """The beginning of a stream with these columns, and those of every record."""
    fields = []
    for column in _chosen(names):
        number, details = _TYPES[column.type]
        fields.append(FlatTable([column.name, Scalar("B", 1), Scalar("B", number), details, None, ()]))
    endianness = _LITTLE if sys.byteorder == "little" else _BIG
    return _message(_SCHEMA, FlatTable([Scalar("h", endianness), fields]), (), 0)


def batch(hub: str, incarnation: int, parts: Sequence[Part], names: frozenset[str]) -> bytes:
    """One batch with the records of all parts, in order. `names`: those of the stream's schema."""
    counts = [len(part.sequences) for part in parts]
    body = _Body(counts)
    implied: dict[str, list[Values]] = {
        "kind": [part.kind.value for part in parts],
        "hub": [hub] * len(parts),
        "incarnation": [incarnation] * len(parts),
        "sequence": [part.sequences for part in parts],
        "time": [part.time_us for part in parts],
        "window_us": [part.window_us for part in parts],
    }
    filled = frozenset[str]().union(*[_FILLED[part.kind] for part in parts])
    columns = [part.values for part in parts]
    for column in _chosen(names):
        name, code = column.name, _LETTERS.get(column.type, "q")
        if name in filled:
            body.add(code, implied.get(name) or [values.get(name) for values in columns])
        else:
            body.add_null(code)
    header = FlatTable([Scalar("q", body.count), Structs(body.nodes, 2), Structs(body.buffers, 2)])
    return _message(_RECORD_BATCH, header, body.pieces, body.size)


class _Body:
    """The columns' bytes, and the offset of each buffer."""

    def __init__(self, counts: Sequence[int]) -> None:
        """`counts`: the records of each part."""
        self._counts = counts
        self.count = sum(counts)
        # (records, nulls) of each column; (offset, length) of each buffer.
        self.nodes: list[int] = []
        self.buffers: list[int] = []
        # The zeros at the front are shared by all buffers of zeros: as many as the longest needs.
        zeros = bytes(8 * (self.count + 1))
        self.pieces = [zeros]
        self.size = len(zeros)
        # The offset of a number repeated for all records, if it was written already.
        self._repeated: dict[tuple[str, float], int] = {}

    def add(self, code: str, values: Sequence[Values]) -> None:
        """A column, from the value or values of each part."""
        first = values[0]
        if isinstance(first, _ONES) and (len(values) == 1 or values.count(first) == len(values)):
            self._add_same(code, first)
            return
        self._add_validity(values)
        chunks = zip(self._counts, values, strict=True)
        if code == _TEXT:
            self._add_texts(chunks)
        else:
            self._add(*[_numbers(code, count, value) for count, value in chunks])

    def add_null(self, code: str) -> None:
        count = self.count
        self.nodes += (count, count)
        if code == _TEXT:
            self.buffers += (0, -(-count // 8), 0, 4 * (count + 1), 0, 0)
        else:
            self.buffers += (0, -(-count // 8), 0, 8 * count)

    def _add_same(self, code: str, value: float | str | bytes | None) -> None:
        """A column with one value for all records."""
        count = self.count
        if value is None:
            self.add_null(code)
        elif code == _TEXT:
            self.nodes += (count, 0)
            self.buffers += (0, 0)
            for buffer in _repeated_text(_text(value), count):
                self._add(buffer)
        elif value == 0:
            self.nodes += (count, 0)
            self.buffers += (0, 0, 0, 8 * count)
        else:
            assert isinstance(value, int | float), "a column of numbers"
            at = self._repeated.setdefault((code, value), self.size)
            self.nodes += (count, 0)
            self.buffers += (0, 0)
            if at == self.size:
                self._add(struct.pack("=" + code, value) * count)
            else:
                self.buffers += (at, 8 * count)

    def _add_validity(self, values: Sequence[Values]) -> None:
        """A bit for each record, 1 if it has a value; nothing if all have."""
        present, at = 0, 0
        for count, value in zip(self._counts, values, strict=True):
            mask = value.present if isinstance(value, NameColumn | Numbers) else 0 if value is None else -1
            present |= (mask & (1 << count) - 1) << at
            at += count
        nulls = at - present.bit_count()
        self.nodes += (at, nulls)
        if nulls:
            self._add(present.to_bytes(-(-at // 8), "little"))
        else:
            self.buffers += (0, 0)

    def _add_texts(self, chunks: Iterable[tuple[int, Values]]) -> None:
        offsets: list[bytes] = [bytes(4)]
        pieces: list[bytes] = []
        at = 0
        for count, value in chunks:
            if isinstance(value, NameColumn):
                own, joined = value.offsets, value.joined
            else:
                text = _text(value)
                own, joined = array(OFFSET, _steps(len(text), count)), text * count
            offsets.append((array(OFFSET, [at + offset for offset in own]) if at else own)[1:].tobytes())
            pieces.append(joined)
            at += len(joined)
        self._add(*offsets)
        self._add(*pieces)

    def _add(self, *pieces: bytes) -> None:
        """A buffer, in pieces."""
        length = sum(map(len, pieces))
        self.buffers += (self.size, length)
        self.pieces += pieces
        if length % 8:
            self.pieces.append(bytes(-length % 8))
        self.size += length + -length % 8


def _numbers(code: str, count: int, value: Values) -> bytes:
    if isinstance(value, Numbers):
        value = value.values
    if isinstance(value, array) and value.typecode in "BHIQ":
        return widened(value)
    if isinstance(value, int | float):
        return struct.pack("=" + code, value) * count
    if value is None:
        return bytes(8 * count)
    if isinstance(value, range):
        return counting(value.start, count)
    assert is_each(value), "a column of numbers"
    return array(code, value).tobytes()


def _repeated_text(text: bytes, count: int) -> tuple[bytes, bytes]:
    """Offsets and bytes of a text repeated for this many records."""
    # Batches differ little in size: they share the array for the next power of two.
    offsets, joined = _plenty_of(text, 1 << count.bit_length())
    return offsets[: 4 * (count + 1)], joined[: len(text) * count]


@lru_cache(maxsize=16)
def _plenty_of(text: bytes, count: int) -> tuple[bytes, bytes]:
    return array(OFFSET, _steps(len(text), count)).tobytes(), text * count


def _steps(length: int, count: int) -> Iterable[int]:
    return accumulate(repeat(length, count), initial=0)


def _text(value: Values) -> bytes:
    if value is None:
        return b""
    assert isinstance(value, str | bytes), "a column of texts"
    return value.encode() if isinstance(value, str) else value


def _message(kind: int, header: FlatTable, pieces: Sequence[bytes], size: int) -> bytes:
    metadata = flatbuffer(FlatTable([Scalar("h", _VERSION_5), Scalar("B", kind), header, Scalar("q", size)]))
    return b"".join((_CONTINUATION, struct.pack("<i", len(metadata)), metadata, *pieces))
