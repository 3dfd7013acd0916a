"""Profiles of topics and hubs over a period of history. DataFrame to DataFrame.

Quantiles come from counts in logarithmic buckets, four to each doubling, since Spark's own take longer than all other
steps together (docs/internals/pipeline.md); a quantile is the upper edge of its bucket, so at most a fifth too high.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812 - its usual name

from equipoise.pipeline.lake.lake import Lake
from equipoise.telemetry import RecordKind, spark_schema

__all__ = ["hub_profiles", "lake_records", "quantiles", "topic_profiles"]

_US = 1_000_000
# Buckets to each doubling: edges are a factor of 1.19 apart.
_BUCKETS = 4
_QUANTILES = (0.5, 0.95, 0.99)


def lake_records(session: SparkSession, lake: Lake, hours: Sequence[str] | None = None) -> DataFrame:
    """The records of these hours of the lake, `date=…/hour=…`, or of all."""
    files = [str(path) for path in lake.files(hours)]
    reader = session.read.schema(spark_schema())
    return reader.parquet(*files) if files else session.createDataFrame([], spark_schema())


def quantiles(
    rows: DataFrame, *, by: Sequence[str], value: Column, name: str, ranks: Sequence[float] = _QUANTILES
) -> DataFrame:
    """Columns `name_p50`, … of a value that is not negative, for each combination of `by`."""
    bucket = F.when(value <= 0, -1).otherwise(F.floor(F.log2(value) * _BUCKETS)).cast("int")
    counted = rows.groupBy(*by, bucket.alias("bucket")).agg(F.count("*").alias("count"))
    group = Window.partitionBy(*by)
    below = group.orderBy("bucket").rowsBetween(Window.unboundedPreceding, Window.currentRow)
    ranked = counted.withColumn("reached", F.sum("count").over(below) / F.sum("count").over(group))
    edge = F.when(F.col("bucket") < 0, 0.0).otherwise(F.pow(F.lit(2.0), (F.col("bucket") + 1) / _BUCKETS))
    found = [F.min(F.when(F.col("reached") >= rank, edge)).alias(f"{name}_p{rank * 100:g}") for rank in ranks]
    return ranked.groupBy(*by).agg(*found)


def topic_profiles(records: DataFrame) -> DataFrame:
    """One row per topic: traffic, its variation, subscribers and hubs."""
    topics = records.where(F.col("kind") == RecordKind.TOPIC.value).withColumn(
        "window_s", F.col("window_us") / _US
    )
    sums = topics.groupBy("topic").agg(
        F.count("*").alias("records"),
        F.countDistinct("hub").alias("hubs"),
        F.min("time").alias("first"),
        F.max("time").alias("last"),
        F.sum("publications").alias("publications"),
        F.sum("deliveries").alias("deliveries"),
        F.sum(F.col("bytes_out") + _or_zero("egress_bytes") + _or_zero("ingress_bytes")).alias("out_bytes"),
        F.max(F.col("publications") / F.col("window_s")).alias("publications_per_s_max"),
        F.max("subscribers").alias("subscribers_max"),
        (F.max(_or_zero("queue_us_max")) / _US).alias("queue_delay_s_max"),
        F.sum(_or_zero("drops")).alias("drops"),
        F.max(_or_zero("filters")).alias("filters_max"),
        F.sum(_or_zero("filter_matches")).alias("filter_matches"),
        (F.sum(_or_zero("matching_ns")) / 1e9).alias("matching_s"),
        F.sum(_or_zero("kept_off_messages")).alias("kept_off_messages"),
    )
    published = F.col("publications") / F.col("window_s")
    return sums.join(quantiles(topics, by=["topic"], value=published, name="publications_per_s"), ["topic"])


def hub_profiles(records: DataFrame) -> DataFrame:
    """One row per hub: time, load and lag."""
    hubs = records.where(F.col("kind") == RecordKind.HUB.value)
    weight_s = F.col("window_us") / _US
    sums = hubs.groupBy("hub").agg(
        F.sum(weight_s).alias("covered_s"),
        F.countDistinct("incarnation").alias("lives"),
        F.sum("publications").alias("publications"),
        F.sum("deliveries").alias("deliveries"),
        (F.sum(F.col("cpu_ratio") * weight_s) / F.sum(weight_s)).alias("cpu_ratio"),
        F.max("cpu_ratio").alias("cpu_ratio_max"),
        F.max("memory_bytes").alias("memory_bytes_max"),
        F.max("connections").alias("connections_max"),
    )
    parts = [
        sums,
        quantiles(hubs, by=["hub"], value=_or_zero("loop_lag_us_max") / _US, name="loop_lag_s"),
        quantiles(hubs, by=["hub"], value=_or_zero("out_bytes_per_s"), name="out_bytes_per_s"),
    ]
    return reduce(lambda left, right: left.join(right, ["hub"]), parts)


def _or_zero(name: str) -> Column:
    return F.coalesce(F.col(name), F.lit(0))
