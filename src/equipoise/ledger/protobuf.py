"""The few parts of the protobuf wire format that BookKeeper's metadata needs: varints, bytes, nested messages.

Implemented here because there are only three messages, and generated code would need a dependency as large as the hub.
"""

from __future__ import annotations

from collections.abc import Iterator

__all__ = ["MalformedError", "bytes_field", "fields", "varint", "varint_field"]

_VARINT = 0
_BYTES = 2
# The sizes of fields of other wire types, which are skipped.
_FIXED = {1: 8, 5: 4}
_VARINT_BYTES_MAX = 10


class MalformedError(ValueError):
    """The bytes are not a message."""


def varint(number: int) -> bytes:
    """Unsigned, seven bits per byte. A negative number takes ten bytes, as in an int64 field."""
    number &= (1 << 64) - 1
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def varint_field(field: int, number: int) -> bytes:
    return varint(field << 3 | _VARINT) + varint(number)


def bytes_field(field: int, data: bytes) -> bytes:
    return varint(field << 3 | _BYTES) + varint(len(data)) + data


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """A number, signed as an int64, and the index after it."""
    number = 0
    for shift in range(0, 7 * _VARINT_BYTES_MAX, 7):
        if at >= len(data):
            raise MalformedError("the message ends within a number")
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            number &= (1 << 64) - 1
            return (number - (1 << 64) if number >> 63 else number), at
    raise MalformedError("a number has more than ten bytes")


def fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """(field, value) in order: a number for a varint, bytes for every type with a length."""
    at = 0
    while at < len(data):
        tag, at = read_varint(data, at)
        field, kind = tag >> 3, tag & 7
        if kind == _VARINT:
            number, at = read_varint(data, at)
            yield field, number
        elif kind == _BYTES:
            size, at = read_varint(data, at)
            if not 0 <= size <= len(data) - at:
                raise MalformedError(f"field {field} is longer than the message")
            yield field, data[at : at + size]
            at += size
        elif kind in _FIXED:
            at += _FIXED[kind]
        else:
            raise MalformedError(f"field {field} has the unknown wire type {kind}")
