"""The attributes of a message: the JSON object in its payload or in its first line.

Any other payload has no attributes, so it matches no filter. Neither does one nested more deeply than 32 levels, or
with
more than 20,000 opening brackets, including those in strings: decoding has to be fast for any bytes.

A string of more than 8,192 characters only exists, like an array: a thousand filters may have to search it.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Any

import msgspec

from equipoise.content.filter import PATH_SEPARATOR, Compound, Truth, Value

__all__ = ["BRACKETS_MAX", "STRING_MAX", "AttributeSource", "attributes_of", "path_of", "values_at"]

DEPTH_MAX = 32
# Arrays and objects are slow to create and to scan: 350,000 in a payload of 1 MiB take a tenth of a second or more.
BRACKETS_MAX = 20_000
# Longest string that is compared: twice the longest filter. A search of it takes up to 13 microseconds.
STRING_MAX = 8_192
_decode = msgspec.json.Decoder().decode


class AttributeSource(StrEnum):
    """Which part of a message has the attributes. The value is the word in a topic's spec."""

    PAYLOAD = "payload"
    FIRST_LINE = "first-line"


def attributes_of(payload: bytes, source: AttributeSource = AttributeSource.PAYLOAD) -> dict[str, Any] | None:
    """The JSON object; None: the message matches no filter."""
    if source is AttributeSource.FIRST_LINE:
        payload = payload.partition(b"\n")[0]
    brackets = payload.count(b"{") + payload.count(b"[")
    if brackets > BRACKETS_MAX:
        return None
    try:
        decoded = _decode(payload)
    except (msgspec.MsgspecError, RecursionError, ValueError):
        return None
    if type(decoded) is not dict:
        return None
    if brackets > DEPTH_MAX and not _is_shallow(decoded):
        return None
    return decoded


def values_at(
    attributes: dict[str, Any], paths: Iterable[tuple[str, tuple[str, ...] | None]]
) -> dict[str, Value]:
    """The values at these paths, each with its segments if it has several; null and absent values are omitted."""
    values: dict[str, Value] = {}
    for path, segments in paths:
        found: Any = attributes.get(path) if segments is None else _reach(attributes, segments)
        kind = type(found)
        if kind is float:
            values[path] = found
        elif kind is str:
            values[path] = found if len(found) <= STRING_MAX else Compound.PRESENT
        elif kind is int:
            try:
                values[path] = float(found)
            except OverflowError:
                continue
        elif kind is bool:
            values[path] = Truth.TRUE if found else Truth.FALSE
        elif found is not None:
            values[path] = Compound.PRESENT
    return values


def path_of(path: str) -> tuple[str, tuple[str, ...] | None]:
    """The form that `values_at` takes."""
    segments = tuple(path.split(PATH_SEPARATOR))
    return path, None if len(segments) == 1 else segments


def _reach(attributes: dict[str, Any], segments: tuple[str, ...]) -> Any:
    found: Any = attributes
    for segment in segments:
        if type(found) is not dict:
            return None
        found = found.get(segment)
    return found


def _is_shallow(decoded: Any) -> bool:
    level = [decoded]
    for _ in range(DEPTH_MAX):
        level = [
            inner
            for outer in level
            for inner in (outer.values() if type(outer) is dict else outer)
            if type(inner) in (dict, list)
        ]
        if not level:
            return True
    return False
