"""Write the few kinds of FlatBuffers that Arrow's messages consist of.

A table is written as its own bytes, followed by what it refers to: offsets only ever point forward, and what lies
behind does not have to be known first. All numbers are little-endian and lie at multiples of their size.
https://flatbuffers.dev/internals
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

__all__ = ["Field", "FlatTable", "Scalar", "Structs", "flatbuffer"]


@dataclass(frozen=True, slots=True)
class Scalar:
    """A number, in struct's letter for its type."""

    code: str
    value: int


@dataclass(frozen=True, slots=True)
class Structs:
    """A vector of structs of 64-bit numbers: all of the numbers in one row, and how many there are to a struct."""

    numbers: Sequence[int]
    width: int


@dataclass(frozen=True, slots=True)
class FlatTable:
    """Fields by their place in the schema; None where one is left out."""

    fields: Sequence[Field | None]


# A string, and a vector of tables, stand for themselves.
Field = Scalar | Structs | FlatTable | str | Sequence[FlatTable]

_OFFSET = "I"


def flatbuffer(root: FlatTable) -> bytes:
    """The buffer with its root; to be placed at a multiple of eight."""
    buffer = bytearray(4)
    _point(buffer, 0, _write_table(buffer, root))
    _align(buffer, 8)
    return bytes(buffer)


def _write_table(buffer: bytearray, table: FlatTable) -> int:
    """Where the table begins. What it refers to comes behind it."""
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
    # The numbers begin at a multiple of eight, right behind their count.
    _align(buffer, 8)
    buffer += bytes(4)
    start = len(buffer)
    count = len(structs.numbers)
    buffer += struct.pack(f"<I{count}q", count // structs.width, *structs.numbers)
    return start


@lru_cache(maxsize=64)
def _layout(codes: tuple[str | None, ...]) -> tuple[list[int], int]:
    """Where each field lies within its table, behind the offset of the vtable, 0 for none; and the table's size."""
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
