"""Which records tell of places that cannot be: the part of `judging` that looks into coordinates.

Always true: a record that tells of no place costs nothing, and nothing is wrong with it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]  # It ships no types.
import pyarrow.compute as pc  # type: ignore[import-untyped]  # As above.
from numpy.typing import NDArray

from equipoise.pipeline.client_locations import (
    LOCATED_MAX,
    PLACE_REACH_S,
    SIDE_REACH_US,
    SIDES,
    has_lengths,
    place_rows,
)

__all__ = ["Misplaced", "misplaced"]

Flags = NDArray[np.bool_]


class Misplaced(NamedTuple):
    """What is wrong with which records."""

    # Not as long as a coordinate, or without what belongs to a centroid.
    malformed: Flags
    not_finite: Flags
    # An error or a height.
    negative: Flags
    # Beyond what is on earth.
    impossible: Flags


def misplaced(records: pa.RecordBatch) -> Misplaced:
    found = Misplaced(*(np.zeros(len(records), np.bool_) for _ in Misplaced._fields))
    for name in ("coordinate", *(f"{side}_at" for side in SIDES)):
        column = records.column(name)
        if column.null_count < len(records):
            _judge(column, found)
    for side in SIDES:
        _judge_side(records, side, found)
    hop_us = _numbers(records.column("home_delay_us"))
    if hop_us is not None:
        found.impossible[hop_us > SIDE_REACH_US] = True
    return found


def _judge(column: pa.Array, found: Misplaced) -> None:
    is_long = has_lengths(column)
    found.malformed[~is_long] = True
    # In place of one that is not a coordinate, none.
    rows = place_rows(pc.if_else(pa.array(is_long), column, pa.scalar(None, pa.binary())))
    is_place = column.is_valid().to_numpy(zero_copy_only=False) & is_long
    is_finite = np.isfinite(rows).all(axis=1)
    found.not_finite[is_place & ~is_finite] = True
    is_place &= is_finite
    numbers = rows[is_place]
    found.negative[is_place] |= (numbers[:, -3:-1] < 0).any(axis=1)
    found.impossible[is_place] |= (np.abs(numbers) > PLACE_REACH_S).any(axis=1)


def _judge_side(records: pa.RecordBatch, side: str, found: Misplaced) -> None:
    """A centroid is of somebody, and says how far they are from it; without one there is nobody."""
    located = _numbers(records.column(f"{side}_located"))
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
        numbers = _numbers(records.column(f"{side}_{name}"))
        if numbers is not None:
            found.impossible[numbers > most] = True


def _numbers(column: pa.Array) -> NDArray[np.int64] | None:
    """Nulls as 0; None if there is nothing else."""
    if column.null_count == len(column):
        return None
    return np.asarray(column.fill_null(0).to_numpy(zero_copy_only=False), np.int64)
