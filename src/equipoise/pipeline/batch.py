"""The view at any time from a DataFrame of records, for the lake and experiments.

    judged_records   records with the reason why one does not count
    valid_records    judged records that count
    rejections       how many do not, by hub and reason
    window_sums      valid records to sums of each hub, on executors
    view_at          window_sums of a moment, joined on the driver

The arithmetic is that of the live query: `hub_sums` on executors, `sliding_window` on the driver.
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

__all__ = ["judged_records", "rejections", "valid_records", "view_at", "window_sums"]

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


def window_sums(records: DataFrame, end_us: int, *, over_s: float = OVER_S) -> DataFrame:
    """`hub` and `sums` of its window, packed: the tables of `HubSums`, empty if it has no record of its own.

    Of valid records; no record after `end_us` counts. A hub's own window ends at its last record.
    """
    over_us = int(over_s * _US)
    time_us = F.unix_micros("time")
    near = records.where((time_us > end_us - 2 * over_us) & (time_us <= end_us))

    def sums(*columns: pa.Array) -> list[bytes]:
        batch = pa.RecordBatch.from_arrays(list(columns), schema=arrow_schema())
        found = sampled([_accepted(batch)], Counter())
        if not len(found.hubs):
            return []
        made = hub_sums(found.topics.sort_by("time_us"), found.hubs, over_us=over_us)
        return [pack_table(table) for table in made]

    udf: Any = arrow_udf(sums, "array<binary>")  # type: ignore[call-overload]  # As above.
    return near.groupBy("hub").agg(udf(*_NAMES).alias("sums"))


def view_at(records: DataFrame, end_us: int, *, over_s: float = OVER_S) -> WindowedView:
    """Of valid records; the window ends at `end_us`, which is the time of the newest record in the live view.

    Hubs are described by their own reports alone, not by the store. Raises PipelineError if no hub has a record.
    """
    packed = window_sums(records, end_us, over_s=over_s).toArrow().column("sums").to_pylist()
    window = JoinedWindow(over_s)
    window.end_us = end_us
    window.add([HubSums(*map(unpack_table, tables)) for tables in packed if tables])
    view = window.view()
    if view is None:
        raise PipelineError(f"no hub has a record in the {over_s:g} s before {end_us / _US:.0f}")
    return view


def _accepted(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch.append_column("rejected", pa.nulls(len(batch), pa.string()))
