"""Rows of the pipeline: pieces of records as hubs sent them, still packed.

A row of Spark costs the JVM some 10 µs when it has the forty columns of telemetry; packed, as the Arrow stream that the
hub made, some thousand records are one row of bytes. They are unpacked where Arrow is at home, in Python workers.

Always true: a row whose `rejected` is null holds records `first` to `next` of a hub's life, as the hub sent them, and
`records` is how many that may be; any other row stands for `records` records that could not be had, and holds none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]  # It ships no types.

__all__ = ["PIECES_SCHEMA", "Rejected", "Rejection", "missing", "piece_row", "stream_of"]


class Rejection(StrEnum):
    """Why a record does not count. The value is what the column `rejected` holds."""

    # The hub had forgotten it, or had restarted, before it was read.
    LOST = "lost"
    # Not a record, but a question that a hub did not answer in time.
    UNANSWERED = "unanswered"
    # It does not say what it must, or comes in bytes that are not Arrow's.
    MALFORMED = "malformed"
    # It claims to be of another hub or life than the one it was read from.
    MISATTRIBUTED = "misattributed"
    UNKNOWN_HUB = "unknown hub"
    DUPLICATE = "duplicate"
    NOT_FINITE = "not finite"
    NEGATIVE = "negative"
    # More than any hub can do.
    IMPOSSIBLE = "impossible"
    # Its window ends later than it can.
    FUTURE = "future"
    # The window of the view had passed when it came. It is kept in the lake.
    LATE = "late"


# How many records, by hub and reason.
Rejected = Counter[tuple[str, str]]

PIECES_SCHEMA = pa.schema(
    [
        pa.field("hub", pa.string()),
        pa.field("incarnation", pa.int64()),
        pa.field("first", pa.int64()),
        pa.field("next", pa.int64()),
        pa.field("packed", pa.binary()),
        pa.field("packed_bytes", pa.int64()),
        pa.field("rejected", pa.string()),
        pa.field("records", pa.int64()),
    ]
)
# Columns of small numbers shrink to a fifth, in less time than it takes to copy them once more.
_CODEC = "lz4"


def piece_row(hub: str, incarnation: int, first: int, following: int, stream: bytes) -> pa.RecordBatch:
    """Of the Arrow stream that a hub sent."""
    packed = pa.compress(stream, codec=_CODEC, asbytes=True)
    return _row([hub, incarnation, first, following, packed, len(stream), None, following - first])


def stream_of(piece: Mapping[str, Any]) -> pa.Buffer:
    """The Arrow stream in a row. Raises ArrowException."""
    return pa.decompress(piece["packed"], decompressed_size=piece["packed_bytes"], codec=_CODEC)


def missing(reason: Rejection, hub: str, incarnation: int, count: int) -> pa.RecordBatch:
    return _row([hub, incarnation, None, None, None, None, reason.value, count])


def _row(values: list[object]) -> pa.RecordBatch:
    columns = [pa.array([value], field.type) for value, field in zip(values, PIECES_SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=PIECES_SCHEMA)
