"""DataFrames to DataFrames, each named for what it yields: the view's sums over any records, as batches of Spark.

Records have the columns of telemetry. The live query needs the sums of one window each second and takes them from
`totals`, which does the same in Arrow; these are for the lake, for experiments, and for whoever has more records than
fit into one machine. Tests hold the two against each other and against a plain reading in Python.

Always true: windows are (end − over, end], and everything that `totals` says of a view is true here for each of them.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]  # It ships no types.
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it
from pyspark.sql.pandas.functions import arrow_udf

from equipoise.pipeline.aggregate import PRESENT_US, SLOPE_POINTS_MIN
from equipoise.pipeline.settings import Plausible
from equipoise.pipeline.source.piece_rows import Rejection
from equipoise.pipeline.transforms_places import gathered_column, told_by_hub, told_last
from equipoise.pipeline.validation import reasons
from equipoise.telemetry import COLUMNS, Kind, arrow_schema

__all__ = [
    "hub_loads",
    "judged_records",
    "records_at",
    "records_in_windows",
    "rejections",
    "topic_rates_by_hub",
    "topic_totals",
    "valid_records",
]

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


def records_in_windows(records: DataFrame, *, over_s: int = 10, step_s: int = 1) -> DataFrame:
    """Each record once for every window it is in, with `window_end_us`; windows end at multiples of the step."""
    step_us = step_s * _US
    time_us = F.unix_micros("time")
    first = (F.ceil(time_us / step_us) * step_us).cast("bigint")
    last = first + over_s * _US - step_us
    return records.withColumn("window_end_us", F.explode(F.sequence(first, last, F.lit(step_us))))


def records_at(records: DataFrame, end_us: int, *, over_s: float = 10.0) -> DataFrame:
    """The records of the one window that ends then, with `window_end_us`."""
    time_us = F.unix_micros("time")
    within = (time_us > end_us - int(over_s * _US)) & (time_us <= end_us)
    return records.where(within).withColumn("window_end_us", F.lit(end_us).cast("bigint"))


def topic_rates_by_hub(windowed: DataFrame) -> DataFrame:
    """What each hub carries of each topic in each window: rates over what the hub's own records cover."""
    topics = _of_kind(windowed, Kind.TOPIC).join(hub_spans(windowed), ["window_end_us", "hub"])
    window_s = F.col("window_us") / _US
    sent = sum((_or_zero(name) for name in ("egress_bytes", "ingress_bytes")), _or_zero("bytes_out"))
    time_us = F.unix_micros("time")
    grouped = (
        topics.where(time_us <= F.col("newest_us"))
        .withColumn("sent", sent)
        .withColumn("from_end_s", (time_us - F.col("window_end_us")) / _US)
        .groupBy("window_end_us", "topic", "hub", "covered_s", "points", "mean_s", "spread")
        .agg(
            F.sum(_or_zero("publications")).alias("publications"),
            F.sum(_or_zero("deliveries")).alias("deliveries"),
            F.sum(_or_zero("bytes_in")).alias("in_bytes"),
            F.sum("sent").alias("out_bytes"),
            F.sum(F.col("sent") / window_s).alias("rate"),
            F.sum(F.col("sent") / window_s * F.col("from_end_s")).alias("rate_by_time"),
            F.max(_or_zero("publications") / window_s).alias("publications_per_s_max"),
            F.max(F.col("sent") / window_s).alias("out_bytes_per_s_max"),
            F.max(_or_zero("backlog_bytes_max")).cast("double").alias("backlog_bytes_max"),
            (F.max(_or_zero("queue_us_max")) / _US).alias("queue_delay_s"),
            (F.max(_or_zero("throttle_us_max")) / _US).alias("throttle_delay_s"),
            F.max_by(_or_zero("publishers"), "time").cast("double").alias("publishers"),
            F.max_by(_or_zero("subscribers"), "time").cast("double").alias("subscribers"),
            F.max(F.unix_micros("time")).alias("time_us"),
            told_last().alias("told"),
        )
    )
    is_line = (F.col("points") >= SLOPE_POINTS_MIN) & (F.col("spread") > 0)
    centred = F.col("rate_by_time") - F.col("mean_s") * F.col("rate")
    trend = F.when(is_line, centred / F.col("spread")).otherwise(0.0)
    return grouped.select(
        *("window_end_us", "topic", "hub", "time_us", "told"),
        *((F.col(name) / F.col("covered_s")).alias(f"{name}_per_s") for name in _SUMS),
        *("publications_per_s_max", "out_bytes_per_s_max", "publishers", "subscribers"),
        *("backlog_bytes_max", "queue_delay_s", "throttle_delay_s"),
        trend.alias("out_bytes_trend"),
    )


_SUMS = ("publications", "deliveries", "in_bytes", "out_bytes")


def topic_totals(by_hub: DataFrame, hubs: DataFrame) -> DataFrame:
    """One row per window and topic: totals across its hubs. `hubs`: the loads of the same windows."""
    newest = F.max("time_us").over(Window.partitionBy("window_end_us", "topic"))
    is_present = F.col("time_us") > F.col("newest_us") - PRESENT_US

    def clients(name: str) -> Column:
        return F.sum(F.when(is_present, F.col(name)).otherwise(0.0)).alias(name)

    totals = [f"{name}_per_s" for name in _SUMS]
    totals += ["publications_per_s_max", "out_bytes_per_s_max", "out_bytes_trend"]
    worst = ("backlog_bytes_max", "queue_delay_s", "throttle_delay_s")
    facts = hubs.select("window_end_us", "hub", "coordinate", "loop_lag_s")
    return (
        by_hub.join(facts, ["window_end_us", "hub"])
        .withColumn("newest_us", newest)
        .groupBy("window_end_us", "topic")
        .agg(
            *(F.sum(name).alias(name) for name in totals),
            *(clients(name) for name in ("publishers", "subscribers")),
            *(F.max(name).alias(name) for name in worst),
            told_by_hub(is_present).alias("told"),
        )
        .withColumn("told", gathered_column("told"))
        .select("*", "told.*")
        .drop("told")
    )


def hub_loads(windowed: DataFrame) -> DataFrame:
    """One row per window and hub: its load as it measured it, by the length of each measurement."""
    time_us = F.unix_micros("time")
    hubs = (
        _of_kind(windowed, Kind.HUB)
        .withColumn("weight_s", F.col("window_us") / _US)
        .withColumn("from_end_s", (time_us - F.col("window_end_us")) / _US)
    )

    def mean(name: str) -> Column:
        return F.sum(_or_zero(name) * F.col("weight_s")) / F.sum("weight_s")

    def last(name: str) -> Column:
        return F.max_by(_or_zero(name), "time").cast("double")

    def trend(name: str) -> Column:
        line = F.regr_slope(_or_zero(name).cast("double"), F.col("from_end_s"))
        return F.when(F.count("*") >= SLOPE_POINTS_MIN, F.coalesce(line, F.lit(0.0))).otherwise(0.0)

    return hubs.groupBy("window_end_us", "hub").agg(
        last("incarnation").cast("bigint").alias("incarnation"),
        last("plan_version").cast("bigint").alias("plan_version"),
        mean("cpu_ratio").alias("cpu_ratio"),
        (mean("loop_lag_us_mean") / _US).alias("loop_lag_s"),
        last("memory_bytes").alias("memory_bytes"),
        mean("out_bytes_per_s").alias("out_bytes_per_s"),
        last("out_bytes_per_s_max").alias("out_bytes_per_s_max"),
        last("deliveries_per_s_max").alias("deliveries_per_s_max"),
        (F.sum("publications") / F.sum("weight_s")).alias("publications_per_s"),
        (F.sum("deliveries") / F.sum("weight_s")).alias("deliveries_per_s"),
        last("connections").alias("connections"),
        last("topics_home").alias("topics"),
        trend("out_bytes_per_s").alias("out_bytes_trend"),
        trend("cpu_ratio").alias("cpu_trend"),
        # As hubs tell it; of a time that is missing it passes the row over.
        F.max_by("coordinate", F.when(F.col("coordinate").isNotNull(), F.col("time"))).alias("coordinate"),
        F.max(time_us).alias("newest_us"),
    )


def hub_spans(windowed: DataFrame) -> DataFrame:
    """What each hub's own records in each window cover, and how their times lie, for trends."""
    from_end_s = (F.unix_micros("time") - F.col("window_end_us")) / _US
    mean_s, points = F.avg(from_end_s), F.count("*")
    return (
        _of_kind(windowed, Kind.HUB)
        .groupBy("window_end_us", "hub")
        .agg(
            (F.sum("window_us") / _US).alias("covered_s"),
            F.max(F.unix_micros("time")).alias("newest_us"),
            points.alias("points"),
            mean_s.alias("mean_s"),
            (F.sum(from_end_s * from_end_s) - points * mean_s * mean_s).alias("spread"),
        )
    )


def _of_kind(records: DataFrame, kind: Kind) -> DataFrame:
    return records.where(F.col("kind") == kind.value)


def _or_zero(name: str) -> Column:
    return F.coalesce(F.col(name), F.lit(0))
