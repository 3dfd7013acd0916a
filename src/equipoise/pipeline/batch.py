"""Records as DataFrames: validated, and made into the view of a moment. For the lake, experiments and looking back.

The sums are those of the live query, `hub_sums`, made on executors, hub by hub; `sliding_window` puts them together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]  # It ships no types.
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - the usual name
from pyspark.sql.pandas.functions import arrow_udf

from equipoise.errors import PipelineError
from equipoise.pipeline.hub_sums import HubSums, hub_sums
from equipoise.pipeline.packed_tables import pack_table, unpack_table
from equipoise.pipeline.samples import sampled
from equipoise.pipeline.settings import Plausible
from equipoise.pipeline.sliding_window import OVER_S, JoinedWindow, WindowedView
from equipoise.pipeline.source.piece_rows import Rejection
from equipoise.pipeline.validation import reasons
from equipoise.telemetry import COLUMNS, arrow_schema

__all__ = ["judged_records", "rejections", "valid_records", "view_at"]

_US = 1_000_000
_NAMES = [column.name for column in COLUMNS]


def judged_records(
    records: DataFrame,
    *,
    now_us: int,
    plausible: Plausible | None = None,
    known_hubs: Collection[str] | None = None,
) -> DataFrame:
    """With a column `rejected`: why a record does not count, null if it does."""
    bounds = plausible or Plausible()

    def judge(*columns: pa.Array) -> pa.Array:
        batch = pa.RecordBatch.from_arrays(list(columns), schema=arrow_schema())
        return reasons(batch, now_us=now_us, plausible=bounds)

    # Its type hints for PySpark know no function of several columns.
    udf: Any = arrow_udf(judge, "string")  # type: ignore[call-overload]
    place = Window.partitionBy("hub", "incarnation", "sequence").orderBy("time")
    found = [udf(*_NAMES)]
    if known_hubs is not None:
        is_known = F.col("hub").isin(list(known_hubs))
        found.append(F.when(~is_known, Rejection.UNKNOWN_HUB.value))
    found.append(F.when(F.row_number().over(place) > 1, Rejection.DUPLICATE.value))
    return records.select(*_NAMES).withColumn("rejected", F.coalesce(*found))


def valid_records(judged: DataFrame) -> DataFrame:
    return judged.where(F.col("rejected").isNull()).drop("rejected")


def rejections(judged: DataFrame) -> DataFrame:
    """How many records were rejected: `hub`, `rejected`, `records`."""
    rejected = judged.where(F.col("rejected").isNotNull())
    return rejected.groupBy("hub", "rejected").agg(F.count("*").alias("records"))


def view_at(records: DataFrame, end_us: int, *, over_s: float = OVER_S) -> WindowedView:
    """Of valid records; the window ends at `end_us`, which is the time of the newest record in the live view.

    Of hubs it has their own reports: nothing from the store. Raises PipelineError if no hub reported anything.
    """
    over_us = int(over_s * _US)
    time_us = F.unix_micros("time")
    # A hub's own window ends at its last record, within the window of the view.
    near = records.where((time_us > end_us - 2 * over_us) & (time_us <= end_us))

    def sums(*columns: pa.Array) -> list[bytes]:
        found = sampled(
            [_accepted(pa.RecordBatch.from_arrays(list(columns), schema=arrow_schema()))], Counter()
        )
        made = (
            hub_sums(found.topics.sort_by("time_us"), found.hubs, over_us=over_us) if len(found.hubs) else ()
        )
        return [pack_table(table) for table in made]

    udf: Any = arrow_udf(sums, "array<binary>")  # type: ignore[call-overload]  # As above.
    rows = near.groupBy("hub").agg(udf(*_NAMES).alias("sums")).toArrow()
    window = JoinedWindow(over_s)
    window.end_us = end_us
    window.add([HubSums(*map(unpack_table, made)) for made in rows.column("sums").to_pylist() if made])
    view = window.view()
    if view is None:
        raise PipelineError(f"no hub has a record in the {over_s:g} s before {end_us / _US:.0f}")
    return view


def _accepted(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch.append_column("rejected", pa.nulls(len(batch), pa.string()))
