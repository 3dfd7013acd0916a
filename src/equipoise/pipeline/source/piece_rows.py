"""Rows of the pipeline: pieces of records as sent by hubs, still packed.

A row of Spark with the forty columns of telemetry costs the JVM some 10 µs; packed, as the Arrow stream of the hub,
some thousand records are one row of bytes. Python workers unpack them, with Arrow.

Always true: a row whose `rejected` is null holds records `first` to `next` of a hub's incarnation, as sent by the hub,
and `records` is their maximum number; any other row stands for `records` missing records, and holds none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]  # It ships no types.

__all__ = ["PIECES_SCHEMA", "Rejected", "Rejection", "missing", "piece_row", "stream_of"]


class Rejection(StrEnum):
    """Why a record is rejected. The value is that of the column `rejected`."""

    # The hub had dropped it, or had restarted, before it was read.
    LOST = "lost"
    # Not a record, but a request without a reply in time.
    UNANSWERED = "unanswered"
    # It lacks required fields, or its bytes are not Arrow's.
    MALFORMED = "malformed"
    # Its hub or incarnation is not the one from which it was read.
    MISATTRIBUTED = "misattributed"
    UNKNOWN_HUB = "unknown hub"
    DUPLICATE = "duplicate"
    NOT_FINITE = "not finite"
    NEGATIVE = "negative"
    # More than any hub is capable of.
    IMPOSSIBLE = "impossible"
    # Its window ends too late.
    FUTURE = "future"
    # It arrived after its window of the view. It is kept in the lake.
    LATE = "late"


# Numbers of records, by hub and reason.
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
# Columns of small numbers shrink to a fifth, in less time than another copy takes.
_CODEC = "lz4"


def piece_row(hub: str, incarnation: int, first: int, following: int, stream: bytes) -> pa.RecordBatch:
    """From the Arrow stream of a hub."""
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
