"""Validate records of a batch, row by row, with reasons.

Records come from our hubs, but telemetry controls the whole system, so a record is checked for impossible values: a
number that is not finite, a negative count, more messages than a machine can send, a window that has not ended yet,
another hub's name, an invalid coordinate.

Always true: the columns have the names and types of the schema; a row has one reason or none, the first that applies in
the order of `Rejection`; a row without a reason has all required fields of its kind; a record without coordinates has
no cost for their checks.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]  # It ships no types.
import pyarrow.compute as pc  # type: ignore[import-untyped]  # As above.
from numpy.typing import NDArray

from equipoise.pipeline.samples import (
    LOCATED_MAX,
    PLACE_REACH_S,
    SIDE_REACH_US,
    SIDES,
    has_lengths,
    place_rows,
)
from equipoise.pipeline.settings import Plausible
from equipoise.pipeline.source.piece_rows import Rejection
from equipoise.telemetry import COLUMNS, ColumnType, RecordKind, arrow_schema

__all__ = ["Misplaced", "conformed", "judged", "misplaced", "reasons"]


class Misplaced(NamedTuple):
    """Which records fail which check."""

    # Not as long as a coordinate, or without the other fields of a centroid.
    malformed: Flags
    not_finite: Flags
    # An error or a height.
    negative: Flags
    # Beyond the longest distance on earth.
    impossible: Flags


def misplaced(records: pa.RecordBatch) -> Misplaced:
    found = Misplaced(*(np.zeros(len(records), np.bool_) for _ in Misplaced._fields))
    for name in ("coordinate", *(f"{side}_at" for side in SIDES)):
        column = records.column(name)
        if column.null_count < len(records):
            _judge(column, found)
    for side in SIDES:
        _judge_side(records, side, found)
    hop_us = _coordinate_rows(records.column("home_delay_us"))
    if hop_us is not None:
        found.impossible[hop_us > SIDE_REACH_US] = True
    return found


def _judge(column: pa.Array, found: Misplaced) -> None:
    is_long = has_lengths(column)
    found.malformed[~is_long] = True
    # An invalid value becomes null.
    rows = place_rows(pc.if_else(pa.array(is_long), column, pa.scalar(None, pa.binary())))
    is_place = column.is_valid().to_numpy(zero_copy_only=False) & is_long
    is_finite = np.isfinite(rows).all(axis=1)
    found.not_finite[is_place & ~is_finite] = True
    is_place &= is_finite
    numbers = rows[is_place]
    found.negative[is_place] |= (numbers[:, -3:-1] < 0).any(axis=1)
    found.impossible[is_place] |= (np.abs(numbers) > PLACE_REACH_S).any(axis=1)


def _judge_side(records: pa.RecordBatch, side: str, found: Misplaced) -> None:
    """A centroid has at least one client, and a deviation; without a centroid there is no client."""
    located = _coordinate_rows(records.column(f"{side}_located"))
    deviation_us = records.column(f"{side}_deviation_us")
    is_told = records.column(f"{side}_at").is_valid().to_numpy(zero_copy_only=False)
    if located is not None or is_told.any():
        is_some = np.zeros_like(is_told) if located is None else located != 0
        found.malformed[is_told != is_some] = True
        found.malformed[is_told & ~deviation_us.is_valid().to_numpy(zero_copy_only=False)] = True
    for name, most in (
        ("located", LOCATED_MAX),
        ("deviation_us", SIDE_REACH_US),
        ("leg_us_max", SIDE_REACH_US),
        ("measured", LOCATED_MAX),
        ("delay_us_max", SIDE_REACH_US),
    ):
        numbers = _coordinate_rows(records.column(f"{side}_{name}"))
        if numbers is not None:
            found.impossible[numbers > most] = True


def _coordinate_rows(column: pa.Array) -> NDArray[np.int64] | None:
    """Nulls as 0; None if all are null."""
    if column.null_count == len(column):
        return None
    return np.asarray(column.fill_null(0).to_numpy(zero_copy_only=False), np.int64)


Flags = NDArray[np.bool_]


_SCHEMA = arrow_schema()
_NUMBERS = [column for column in COLUMNS if column.type in (ColumnType.LONG, ColumnType.DOUBLE)]
# A keyed hash, which may be negative.
_SIGNED = frozenset({"publisher"})
_DOUBLES = [column.name for column in _NUMBERS if column.type is ColumnType.DOUBLE]
_MESSAGES = ("publications", "deliveries", "ingress_messages", "egress_messages")
_BYTES = ("bytes_in", "bytes_out", "ingress_bytes", "egress_bytes")
# Required fields, by kind. Others may be missing in records of older hubs.
_REQUIRED = {
    RecordKind.TOPIC: ("topic", "publications", "deliveries", "bytes_in", "bytes_out", "subscribers"),
    RecordKind.HUB: ("publications", "deliveries", "bytes_out", "cpu_ratio"),
    RecordKind.ARRIVAL: ("topic", "size_bytes"),
}


def conformed(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The columns of the schema, by name: missing ones null, unknown ones dropped. Raises ArrowInvalid."""
    names = set(batch.schema.names)
    columns = [
        batch.column(field.name).cast(field.type) if field.name in names else pa.nulls(len(batch), field.type)
        for field in _SCHEMA
    ]
    return pa.RecordBatch.from_arrays(columns, schema=_SCHEMA)


def judged(
    batch: pa.RecordBatch, *, now_us: int, plausible: Plausible, hub: str | None = None, incarnation: int = 0
) -> pa.RecordBatch:
    """The batch in the schema, with a column `rejected`. With a hub, every record has to be of it and that
    incarnation.
    """
    records = conformed(batch)
    found = reasons(records, now_us=now_us, plausible=plausible, hub=hub, incarnation=incarnation)
    return records.append_column("rejected", found)


def reasons(
    records: pa.RecordBatch,
    *,
    now_us: int,
    plausible: Plausible,
    hub: str | None = None,
    incarnation: int = 0,
) -> pa.StringArray:
    """The reason to reject each record; null: valid. Without a hub, records are in no order."""
    found: NDArray[Any] = np.full(len(records), None, dtype=object)
    places = misplaced(records)
    checks = {
        Rejection.FUTURE: _is_future(records, now_us, plausible),
        Rejection.IMPOSSIBLE: _is_impossible(records, plausible) | places.impossible,
        Rejection.NEGATIVE: _is_negative(records) | places.negative,
        Rejection.NOT_FINITE: _is_not_finite(records) | places.not_finite,
        Rejection.DUPLICATE: _is_again(records, hub),
        Rejection.MISATTRIBUTED: _is_of_another(records, hub, incarnation),
        Rejection.MALFORMED: _is_malformed(records) | places.malformed,
    }
    # Earlier reasons overwrite later ones.
    for reason, is_so in checks.items():
        found[is_so] = reason.value
    return pa.array(found, pa.string())


def _is_malformed(records: pa.RecordBatch) -> Flags:
    kind = records.column("kind")
    is_known = np.zeros(len(records), np.bool_)
    for each, required in _REQUIRED.items():
        is_such = _flags(pc.equal(kind, each.value))
        for name in (*required, "hub", "incarnation", "sequence", "time", "window_us"):
            is_such &= _present(records, name)
        is_known |= is_such
    return ~is_known


def _is_of_another(records: pa.RecordBatch, hub: str | None, incarnation: int) -> Flags:
    if hub is None:
        return np.zeros(len(records), np.bool_)
    is_own = pc.and_(
        pc.equal(records.column("hub"), hub), pc.equal(records.column("incarnation"), incarnation)
    )
    return ~_flags(is_own)


def _is_again(records: pa.RecordBatch, hub: str | None) -> Flags:
    """Records of one incarnation are in the order of their numbers: any other one is repeated or invalid."""
    sequence = records.column("sequence").fill_null(-1).to_numpy(zero_copy_only=False)
    is_again = np.zeros(len(records), np.bool_)
    if len(sequence) > 1 and hub is not None:
        highest = np.maximum.accumulate(sequence)
        is_again[1:] = sequence[1:] <= highest[:-1]
    return is_again


def _is_not_finite(records: pa.RecordBatch) -> Flags:
    bad = np.zeros(len(records), np.bool_)
    for name in _DOUBLES:
        if _has_values(records, name):
            bad |= ~np.isfinite(_numbers(records, name))
    return bad


def _is_negative(records: pa.RecordBatch) -> Flags:
    bad = np.zeros(len(records), np.bool_)
    for column in _NUMBERS:
        if column.name not in _SIGNED and _has_values(records, column.name):
            bad |= _numbers(records, column.name) < 0
    return bad


def _is_impossible(records: pa.RecordBatch, plausible: Plausible) -> Flags:
    is_arrival = _flags(pc.equal(records.column("kind"), RecordKind.ARRIVAL.value))
    window_us = _numbers(records, "window_us")
    bad = (window_us < plausible.window_us_min) | (window_us > plausible.window_us_max)
    bad &= ~is_arrival
    window_s = np.maximum(window_us, plausible.window_us_min) / 1e6
    for names, per_s_max in ((_MESSAGES, plausible.messages_per_s_max), (_BYTES, plausible.bytes_per_s_max)):
        for name in names:
            if _has_values(records, name):
                bad |= _numbers(records, name) > window_s * per_s_max
    for name, most in (
        ("cpu_ratio", plausible.cpu_ratio_max),
        ("memory_bytes", plausible.memory_bytes_max),
        ("out_bytes_per_s", plausible.bytes_per_s_max),
        ("out_bytes_per_s_max", plausible.bytes_per_s_max),
        ("deliveries_per_s_max", plausible.messages_per_s_max),
    ):
        if _has_values(records, name):
            bad |= _numbers(records, name) > most
    return bad


def _is_future(records: pa.RecordBatch, now_us: int, plausible: Plausible) -> Flags:
    latest_us = now_us + int(plausible.future_s_max * 1e6)
    return _flags(pc.greater(records.column("time").cast(pa.int64()), latest_us))


def _has_values(records: pa.RecordBatch, name: str) -> bool:
    """Most kinds leave most columns empty: those have no cost."""
    return bool(records.column(name).null_count < len(records))


def _present(records: pa.RecordBatch, name: str) -> Flags:
    column = records.column(name)
    if column.null_count == 0:
        return np.ones(len(records), np.bool_)
    return _flags(column.is_valid())


def _numbers(records: pa.RecordBatch, name: str) -> NDArray[Any]:
    """Nulls as 0, which is always valid."""
    column = records.column(name)
    return np.asarray((column.fill_null(0) if column.null_count else column).to_numpy(zero_copy_only=False))


def _flags(array: Any) -> Flags:
    return np.asarray(array.fill_null(False).to_numpy(zero_copy_only=False), np.bool_)
