"""The attributes of a message: the JSON object in its payload or in its first line.

A payload that is anything else has none, so that it matches no filter. So has one that is nested more deeply than 32
levels, however it got there: decoding has to end soon for any bytes.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Any

import msgspec

from equipoise.content.filter import PATH_SEPARATOR, Compound, Truth, Value

__all__ = ["AttributeSource", "attributes_of", "path_of", "values_at"]

DEPTH_MAX = 32
_decode = msgspec.json.Decoder().decode


class AttributeSource(StrEnum):
    """Where a topic's messages have their attributes. The value is the word in a topic's spec."""

    PAYLOAD = "payload"
    FIRST_LINE = "first-line"


def attributes_of(payload: bytes, source: AttributeSource = AttributeSource.PAYLOAD) -> dict[str, Any] | None:
    """The object, as JSON has it; None: the message matches no filter."""
    if source is AttributeSource.FIRST_LINE:
        payload = payload.partition(b"\n")[0]
    try:
        decoded = _decode(payload)
    except (msgspec.MsgspecError, RecursionError, ValueError):
        return None
    if type(decoded) is not dict:
        return None
    if payload.count(b"{") + payload.count(b"[") > DEPTH_MAX and not _is_shallow(decoded):
        return None
    return decoded


def values_at(
    attributes: dict[str, Any], paths: Iterable[tuple[str, tuple[str, ...] | None]]
) -> dict[str, Value]:
    """The values at these paths, each with its segments if it has several; what is null or absent is left out."""
    values: dict[str, Value] = {}
    for path, segments in paths:
        found: Any = attributes.get(path) if segments is None else _reach(attributes, segments)
        kind = type(found)
        if kind is str or kind is float:
            values[path] = found
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
    """As `values_at` takes it."""
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
