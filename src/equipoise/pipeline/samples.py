"""The fields of a record that a view needs: numbers, the hub's role, locations. Pure.

The view's schema determines the columns of telemetry: every source of a number of topics or hubs.

The locations of both sides in a topic's record become one row of numbers, NaN where the record has none:

    publishers: their centroid, their number, deviation and leg, in seconds; the number with a measured delay, and its
    quantiles; then subscribers, likewise; then the measured delay between the hub and the topic's home

In samples such a row is one value of bytes, null in a record without both sides: if no client reports its coordinate,
that is one column without values.

Always true of samples: they are in the order of the hub's records; a missing number is 0, a missing location null.
Always true of judged records: a centroid has its count and deviation; a leg may be missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]  # It ships no types.
import pyarrow.compute as pc  # type: ignore[import-untyped]  # As above.
from numpy.typing import NDArray

from equipoise.coordinates import CoordinateSettings
from equipoise.pipeline.source.piece_rows import Rejected
from equipoise.telemetry import COLUMNS, ColumnType, RecordKind
from equipoise.view.schema import ADDED, HUB_COLUMNS, TOPIC_COLUMNS, ViewColumn

__all__ = [
    "DELAYS",
    "DEVIATION",
    "HOME_DELAY",
    "HUB_SAMPLES",
    "LEG",
    "LOCATED",
    "LOCATED_MAX",
    "MEASURED",
    "PLACE_NUMBERS",
    "PLACE_REACH_S",
    "ROLES",
    "SIDES",
    "SIDE_NUMBERS",
    "SIDE_REACH_US",
    "TOPIC_SAMPLES",
    "WHERE_COLUMNS",
    "WHERE_NUMBERS",
    "Sampled",
    "has_lengths",
    "packed",
    "place_rows",
    "sampled",
    "unpacked_rows",
    "where_rows",
]

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

# The role of a hub for a topic, as an index into this. The last is the home.
ROLES = ("relay", "lane", "home")
SIDES = ("publishers", "subscribers")
# A coordinate: point, error, height, adjustment.
PLACE_NUMBERS = CoordinateSettings().dimensions + 3
_PLACE_BYTES = 8 * PLACE_NUMBERS
# The columns of a side's other numbers.
LOCATED, DEVIATION, LEG = PLACE_NUMBERS, PLACE_NUMBERS + 1, PLACE_NUMBERS + 2
MEASURED = PLACE_NUMBERS + 3
_LEVELS = ("p50", "p90", "p99", "max")
DELAYS = slice(MEASURED + 1, MEASURED + 1 + len(_LEVELS))
SIDE_NUMBERS = MEASURED + 1 + len(_LEVELS)
HOME_DELAY = SIDE_NUMBERS * len(SIDES)
WHERE_NUMBERS = HOME_DELAY + 1
_ROW_BYTES = 8 * WHERE_NUMBERS
_OF_A_SIDE = (
    *("at", "located", "deviation_us", "leg_us_max", "measured"),
    *(f"delay_us_{level}" for level in _LEVELS),
)
WHERE_COLUMNS = [*(f"{side}_{what}" for side in SIDES for what in _OF_A_SIDE), "home_delay_us"]
# Twice the longest distance on earth: as for a coordinate of another node.
PLACE_REACH_S = 100.0
# Two coordinates at opposite ends of the reach, in each dimension, and their heights.
SIDE_REACH_US = 1_000_000_000
# Clients of one hub: a thousand times the largest number observed, so that a false count cannot dominate a mean.
LOCATED_MAX = 10_000_000
_US = 1e6


def has_lengths(column: pa.Array) -> Flags:
    """Whether each value is missing or as long as a coordinate."""
    is_right = pc.equal(pc.binary_length(column), _PLACE_BYTES)
    return np.asarray(is_right.fill_null(True).to_numpy(zero_copy_only=False), np.bool_)


def place_rows(column: pa.Array) -> Floats:
    """A row for each value, all of the right length; NaN for a missing one."""
    return _rows(column, PLACE_NUMBERS)


def where_rows(records: Any) -> Floats:
    """The rows of records about topics, from any table with `WHERE_COLUMNS`."""
    count = len(records)
    rows = np.full((count, WHERE_NUMBERS), np.nan)
    for at, side in enumerate(SIDES):
        own = rows[:, at * SIDE_NUMBERS : (at + 1) * SIDE_NUMBERS]
        own[:, :PLACE_NUMBERS] = place_rows(records.column(f"{side}_at"))
        own[:, LOCATED] = _numbers(records.column(f"{side}_located"))
        own[:, DEVIATION] = _numbers(records.column(f"{side}_deviation_us")) / _US
        own[:, LEG] = _numbers(records.column(f"{side}_leg_us_max")) / _US
        own[:, MEASURED] = _numbers(records.column(f"{side}_measured"))
        for number, level in enumerate(_LEVELS, DELAYS.start):
            own[:, number] = _numbers(records.column(f"{side}_delay_us_{level}")) / _US
        # A side without clients has no location.
        own[np.isnan(own[:, 0])] = np.nan
    rows[:, HOME_DELAY] = _numbers(records.column("home_delay_us")) / _US
    return rows


def packed(records: pa.RecordBatch) -> pa.Array:
    """The rows as bytes; null for a record without both sides."""
    has_place = [records.column(f"{side}_at").is_valid() for side in SIDES]
    is_known = pc.or_(*has_place)
    if not is_known.true_count:
        return pa.nulls(len(records), pa.binary())
    rows = where_rows(records.filter(is_known))
    lengths = np.where(is_known.to_numpy(zero_copy_only=False), _ROW_BYTES, 0)
    ends = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    validity = pa.array(is_known).buffers()[1]
    return pa.Array.from_buffers(
        pa.binary(),
        len(records),
        [validity, pa.py_buffer(ends), pa.py_buffer(np.ascontiguousarray(rows))],
    )


def unpacked_rows(column: pa.Array) -> Floats:
    """The rows from the output of `packed`."""
    return _rows(column, WHERE_NUMBERS)


def _rows(column: pa.Array, width: int) -> Floats:
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    rows = np.full((len(column), width), np.nan)
    if column.null_count < len(column):
        fixed = column.drop_null().cast(pa.binary(8 * width))
        numbers = np.frombuffer(fixed.buffers()[1], "<f8", len(fixed) * width, fixed.offset * 8 * width)
        rows[column.is_valid().to_numpy(zero_copy_only=False)] = numbers.reshape(-1, width)
    return rows


def _numbers(column: pa.Array) -> Floats:
    """NaN for a missing one."""
    return np.asarray(column.cast(pa.float64()).fill_null(np.nan).to_numpy(zero_copy_only=False), np.float64)


# --- samples ----------------------------------------------------------------------------------------------------------

_FRACTIONS = frozenset(column.name for column in COLUMNS if column.type is ColumnType.DOUBLE)
_ROLES = pa.array(ROLES)


def _sources(columns: Sequence[ViewColumn]) -> list[pa.Field]:
    """Each source of a number once, in order; with the length of the record, which all sums need."""
    names = dict.fromkeys(["window_us", *(column.source for column in columns if column.source)])
    return [pa.field(name, pa.float64() if name in _FRACTIONS else pa.int64()) for name in names]


_TOPIC_NUMBERS = _sources(TOPIC_COLUMNS)
_HUB_NUMBERS = _sources(HUB_COLUMNS)

# Times are whole microseconds since 1970, as in calculations.
TOPIC_SAMPLES = pa.schema(
    [
        *(("hub", pa.string()), ("topic", pa.binary()), ("time_us", pa.int64())),
        *_TOPIC_NUMBERS,
        # An index into ROLES; and the coordinates of its clients, as packed rows.
        *(("role", pa.int8()), ("where", pa.binary())),
    ]
)
HUB_SAMPLES = pa.schema(
    [("hub", pa.string()), ("time_us", pa.int64()), *_HUB_NUMBERS, ("coordinate", pa.binary())]
)


class Sampled(NamedTuple):
    """From some records: samples, and the number of rejected ones, by hub and reason."""

    topics: pa.Table
    hubs: pa.Table
    rejected: Rejected


def sampled(records: Iterable[pa.RecordBatch], rejected: Rejected) -> Sampled:
    """From judged records."""
    topics, hubs = [], []
    for batch in records:
        topics.append(topic_samples(batch))
        hubs.append(hub_samples(batch))
    return Sampled(
        pa.Table.from_batches(topics, TOPIC_SAMPLES), pa.Table.from_batches(hubs, HUB_SAMPLES), rejected
    )


def topic_samples(records: pa.RecordBatch) -> pa.RecordBatch:
    """From judged records: those of topics that were not rejected."""
    valid = _valid(records, RecordKind.TOPIC)
    columns = [valid.column("hub"), valid.column("topic"), valid.column("time").cast(pa.int64())]
    columns += [_column(valid, number) for number in _TOPIC_NUMBERS]
    # An older hub's record may lack it; then the hub is the home of no topic.
    role = pc.index_in(valid.column("role"), _ROLES).fill_null(0).cast(pa.int8())
    columns += [role, packed(valid)]
    return pa.RecordBatch.from_arrays(columns, schema=TOPIC_SAMPLES)


def hub_samples(records: pa.RecordBatch) -> pa.RecordBatch:
    """From judged records: those of hubs that were not rejected."""
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
