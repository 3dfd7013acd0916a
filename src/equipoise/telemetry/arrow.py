"""Write records as an Arrow IPC stream, without Arrow.

pyarrow would do it, at the price of 45 MB for every hub and of stalls of 50 ms while it is imported, which is what
telemetry is to find, not to cause (docs/decisions/0007). Writing takes a page: a stream is a schema and then batches,
each a table of lengths and offsets followed by the columns' bytes. Readers use pyarrow.

A batch holds the records of several blocks. Buffers of nothing but zeros, of which a null column has two, are one
place in the batch that all of them refer to.
https://arrow.apache.org/docs/format/Columnar.html#serialization-and-interprocess-communication-ipc
"""

from __future__ import annotations

import struct
import sys
from array import array
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from itertools import accumulate

from equipoise.telemetry.block import Names, Numbers, Part, Values, is_each
from equipoise.telemetry.flatbuffer import Scalar, Structs, Table, flatbuffer
from equipoise.telemetry.schema import COLUMNS, Column, ColumnType

__all__ = ["END", "batch", "schema_message"]

_CONTINUATION = b"\xff\xff\xff\xff"
# Behind the last batch.
END = _CONTINUATION + bytes(4)

_VERSION_5 = 4
_SCHEMA, _RECORD_BATCH = 1, 3
_LITTLE, _BIG = 0, 1
_MICROSECOND = 2
_DOUBLE_PRECISION = 2

# Arrow's number for the type, and what it says about it.
_TYPES = {
    ColumnType.LONG: (2, Table([Scalar("i", 64), Scalar("B", 1)])),
    ColumnType.DOUBLE: (3, Table([Scalar("h", _DOUBLE_PRECISION)])),
    ColumnType.BINARY: (4, Table([])),
    ColumnType.STRING: (5, Table([])),
    ColumnType.TIMESTAMP: (10, Table([Scalar("h", _MICROSECOND), "UTC"])),
}
_TEXTS = frozenset({ColumnType.STRING, ColumnType.BINARY})


@cache
def schema_message() -> bytes:
    """What a stream begins with; always the same."""
    fields = []
    for column in COLUMNS:
        number, details = _TYPES[column.type]
        fields.append(Table([column.name, Scalar("B", 1), Scalar("B", number), details, None, ()]))
    endianness = _LITTLE if sys.byteorder == "little" else _BIG
    return _message(_SCHEMA, Table([Scalar("h", endianness), fields]), b"")


def batch(hub: str, incarnation: int, parts: Sequence[Part]) -> bytes:
    """One batch with the records of all parts, in order."""
    body = _Body(sum(len(part.sequences) for part in parts))
    shared: dict[str, Callable[[Part], Values]] = {
        "kind": lambda part: part.kind.value,
        "hub": lambda part: hub,
        "incarnation": lambda part: incarnation,
        "sequence": lambda part: part.sequences,
        "time": lambda part: part.time_us,
        "window_us": lambda part: part.window_us,
    }
    for column in COLUMNS:
        of = shared.get(column.name)
        chunks = [
            (len(part.sequences), part.values.get(column.name) if of is None else of(part)) for part in parts
        ]
        body.add(column, chunks)
    header = Table([Scalar("q", body.count), Structs(body.nodes, 2), Structs(body.buffers, 2)])
    return _message(_RECORD_BATCH, header, b"".join(body.pieces))


class _Body:
    """The columns' bytes, and where each buffer of them lies."""

    def __init__(self, count: int) -> None:
        self.count = count
        # (records, nulls) of each column; (offset, length) of each buffer.
        self.nodes: list[int] = []
        self.buffers: list[int] = []
        # At the front, the zeros that all who need some refer to: as many as the longest needs.
        zeros = bytes(8 * (count + 1))
        self.pieces = [zeros]
        self._size = len(zeros)

    def add(self, column: Column, chunks: Sequence[tuple[int, Values]]) -> None:
        self._add_validity(chunks)
        if column.type in _TEXTS:
            self._add_texts(chunks)
        elif all(value is None or value == 0 for _, value in chunks):
            self._add_zeros(8 * self.count)
        else:
            code = "d" if column.type is ColumnType.DOUBLE else "q"
            self._add(b"".join([_numbers(code, count, value) for count, value in chunks]))

    def _add_validity(self, chunks: Sequence[tuple[int, Values]]) -> None:
        """A bit for each record, 1 where it has a value; nothing where all have."""
        present, at = 0, 0
        for count, value in chunks:
            mask = value.present if isinstance(value, Names | Numbers) else 0 if value is None else -1
            present |= (mask & (1 << count) - 1) << at
            at += count
        nulls = at - present.bit_count()
        self.nodes += (at, nulls)
        if not nulls:
            self._add_zeros(0)
        elif present:
            self._add(present.to_bytes(-(-at // 8), "little"))
        else:
            self._add_zeros(-(-at // 8))

    def _add_texts(self, chunks: Sequence[tuple[int, Values]]) -> None:
        if all(value is None for _, value in chunks):
            self._add_zeros(4 * (self.count + 1))
            self._add_zeros(0)
            return
        ends: list[bytes] = [bytes(4)]
        pieces: list[bytes] = []
        at = 0
        for count, value in chunks:
            if isinstance(value, Names):
                ends.append(array("i", accumulate(value.lengths, initial=at))[1:].tobytes())
                pieces.append(value.joined)
            else:
                text = _text(value)
                ends.append(_ends(at, len(text), count))
                pieces.append(text * count)
            at += len(pieces[-1])
        self._add(b"".join(ends))
        self._add(b"".join(pieces))

    def _add(self, data: bytes) -> None:
        self.buffers += (self._size, len(data))
        self.pieces += (data, bytes(-len(data) % 8))
        self._size += len(data) + -len(data) % 8

    def _add_zeros(self, length: int) -> None:
        self.buffers += (0, length)


def _numbers(code: str, count: int, value: Values) -> bytes:
    if isinstance(value, Numbers):
        value = value.values
    if isinstance(value, array) and value.typecode in "BHIQ":
        return _widened(value)
    if isinstance(value, int | float):
        return struct.pack("=" + code, value) * count
    if value is None:
        return bytes(8 * count)
    assert is_each(value), "a column of numbers"
    return array(code, value).tobytes()


def _widened(numbers: array[int]) -> bytes:
    """As numbers of eight bytes: the n-th byte of all of them at once, five times as fast as one by one."""
    narrow, width = numbers.tobytes(), numbers.itemsize
    wide = bytearray(8 * len(numbers))
    first = 0 if sys.byteorder == "little" else 8 - width
    for i in range(width):
        wide[first + i :: 8] = narrow[i::width]
    return bytes(wide)


@lru_cache(maxsize=64)
def _ends(at: int, length: int, count: int) -> bytes:
    """Where each of so many texts of one length ends. Most batches ask for the same ones again."""
    return array("i", [at + length * (i + 1) for i in range(count)]).tobytes()


def _text(value: Values) -> bytes:
    if value is None:
        return b""
    assert isinstance(value, str | bytes), "a column of texts"
    return value.encode() if isinstance(value, str) else value


def _message(kind: int, header: Table, body: bytes) -> bytes:
    metadata = flatbuffer(Table([Scalar("h", _VERSION_5), Scalar("B", kind), header, Scalar("q", len(body))]))
    return b"".join((_CONTINUATION, struct.pack("<i", len(metadata)), metadata, body))
