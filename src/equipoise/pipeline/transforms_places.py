"""The part of `transforms` that says where topics' clients are: rows by hub in, a column by topic out.

What follows from the hubs' words is `gathering`'s to say; Spark only brings them together.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]  # It ships no types.
import pyarrow.compute as pc  # type: ignore[import-untyped]  # As above.
from numpy.typing import NDArray
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it
from pyspark.sql.pandas.functions import arrow_udf

from equipoise.pipeline.aggregate_locations import written_places
from equipoise.pipeline.client_locations import SIDES, WHERE_COLUMNS, place_rows, where_rows
from equipoise.pipeline.topic_latency import ROLES, Gathered, Told, gathered

__all__ = ["gathered_column", "told_by_hub", "told_last"]

_RESULT_DDL = (
    "struct<publishers_at array<double>, publishers_located double, "
    "subscribers_at array<double>, subscribers_located double, deviation_s double, latency_s_worst double>"
)


def told_last() -> Column:
    """An aggregate: what a hub said last of a topic's clients."""
    return F.max_by(F.struct("role", *SIDES, *WHERE_COLUMNS), "time")


def told_by_hub(is_present: Column) -> Column:
    """An aggregate over a topic's hubs: what each says that carries it now, with what is known of the hub itself."""
    words = F.struct("told.*", "time_us", "coordinate", "loop_lag_s")
    return F.collect_list(F.when(is_present, words))


def gathered_column(words: str) -> Column:
    """Of a column that `told_by_hub` made: a struct with the view's columns."""
    # Its type hints for PySpark know no function of nested columns.
    udf: Any = arrow_udf(_gather, _RESULT_DDL)  # type: ignore[call-overload]
    found: Column = udf(F.col(words))
    return found


def _gather(words: pa.Array) -> pa.Array:
    rows = pa.RecordBatch.from_struct_array(words.flatten())
    lag_s = rows.column("loop_lag_s").fill_null(0.0).to_numpy(zero_copy_only=False)
    found = gathered(
        Told(
            topic=np.repeat(
                np.arange(len(words)), pc.list_value_length(words).to_numpy(zero_copy_only=False)
            ),
            role=pc.index_in(rows.column("role"), pa.array(ROLES)).fill_null(0).to_numpy().astype(np.int8),
            time_us=rows.column("time_us").to_numpy(),
            where=where_rows(rows.select(WHERE_COLUMNS)),
            clients=np.column_stack([_counts(rows.column(side)) for side in SIDES]),
            hub_at=place_rows(rows.column("coordinate")),
            lag_s=lag_s,
        ),
        len(words),
    )
    columns = [written_places(each) if each.ndim == 2 else pa.array(each) for each in found]
    return pa.StructArray.from_arrays(columns, names=list(Gathered._fields))


def _counts(column: pa.Array) -> NDArray[np.float64]:
    return np.asarray(column.fill_null(0).to_numpy(zero_copy_only=False), np.float64)
