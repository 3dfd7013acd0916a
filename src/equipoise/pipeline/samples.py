"""The part of a record that a view needs. Pure.

Which columns of telemetry those are follows from the view's schema: every source of a number of topics or hubs.

Always true of samples: they come in the order of the hub's records; a number that a record does not say is 0 in them,
a place is null.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import pyarrow as pa  # type: ignore[import-untyped]  # It ships no types.
import pyarrow.compute as pc  # type: ignore[import-untyped]  # As above.

from equipoise.pipeline.client_locations import packed
from equipoise.pipeline.source.unpack import Rejected
from equipoise.pipeline.topic_latency import ROLES
from equipoise.telemetry import COLUMNS, ColumnType, RecordKind
from equipoise.view.schema import ADDED, HUB_COLUMNS, TOPIC_COLUMNS, ViewColumn

__all__ = ["HUB_SAMPLES", "TOPIC_SAMPLES", "Sampled", "sampled"]

_FRACTIONS = frozenset(column.name for column in COLUMNS if column.type is ColumnType.DOUBLE)
_ROLES = pa.array(ROLES)


def _sources(columns: Sequence[ViewColumn]) -> list[pa.Field]:
    """Each source of a number once, in order; with the length of the record, which all sums go by."""
    names = dict.fromkeys(["window_us", *(column.source for column in columns if column.source)])
    return [pa.field(name, pa.float64() if name in _FRACTIONS else pa.int64()) for name in names]


_TOPIC_NUMBERS = _sources(TOPIC_COLUMNS)
_HUB_NUMBERS = _sources(HUB_COLUMNS)

# Times are whole microseconds since 1970, as they are calculated with.
TOPIC_SAMPLES = pa.schema(
    [
        *(("hub", pa.string()), ("topic", pa.binary()), ("time_us", pa.int64())),
        *_TOPIC_NUMBERS,
        # An index into ROLES; and the coordinates of its clients, as `client_locations` packs them.
        *(("role", pa.int8()), ("where", pa.binary())),
    ]
)
HUB_SAMPLES = pa.schema(
    [("hub", pa.string()), ("time_us", pa.int64()), *_HUB_NUMBERS, ("coordinate", pa.binary())]
)


class Sampled(NamedTuple):
    """Of some records: samples, and how many were rejected, by hub and reason."""

    topics: pa.Table
    hubs: pa.Table
    rejected: Rejected


def sampled(records: Iterable[pa.RecordBatch], rejected: Rejected) -> Sampled:
    """Of judged records."""
    topics, hubs = [], []
    for batch in records:
        topics.append(topic_samples(batch))
        hubs.append(hub_samples(batch))
    return Sampled(
        pa.Table.from_batches(topics, TOPIC_SAMPLES), pa.Table.from_batches(hubs, HUB_SAMPLES), rejected
    )


def topic_samples(records: pa.RecordBatch) -> pa.RecordBatch:
    """Of judged records: those of topics that were not rejected."""
    valid = _valid(records, RecordKind.TOPIC)
    columns = [valid.column("hub"), valid.column("topic"), valid.column("time").cast(pa.int64())]
    columns += [_column(valid, number) for number in _TOPIC_NUMBERS]
    # An older hub's record may not say it; then it is the home of nothing.
    role = pc.index_in(valid.column("role"), _ROLES).fill_null(0).cast(pa.int8())
    columns += [role, packed(valid)]
    return pa.RecordBatch.from_arrays(columns, schema=TOPIC_SAMPLES)


def hub_samples(records: pa.RecordBatch) -> pa.RecordBatch:
    """Of judged records: those of hubs that were not rejected."""
    valid = _valid(records, RecordKind.HUB)
    columns = [valid.column("hub"), valid.column("time").cast(pa.int64())]
    columns += [_column(valid, number) for number in _HUB_NUMBERS]
    columns.append(valid.column("coordinate"))
    return pa.RecordBatch.from_arrays(columns, schema=HUB_SAMPLES)


def _valid(records: pa.RecordBatch, kind: RecordKind) -> pa.RecordBatch:
    is_such = pc.equal(records.column("kind"), kind.value)
    return records.filter(pc.and_(is_such, records.column("rejected").is_null()))


def _column(records: pa.RecordBatch, number: pa.Field) -> pa.Array:
    first, *more = ADDED.get(number.name, (number.name,))
    found = _or_zero(records.column(first).cast(number.type))
    for name in more:
        found = pc.add(found, _or_zero(records.column(name).cast(number.type)))
    return found


def _or_zero(column: pa.Array) -> pa.Array:
    return column.fill_null(0) if column.null_count else column
