"""Views and validation of records in Spark, compared with a direct computation on the same records."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]  # It ships no types.
import pyarrow.parquet as pq  # type: ignore[import-untyped]  # As above.
import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the usual name

from equipoise.errors import PipelineError
from equipoise.pipeline.batch import judged_records, rejections, valid_records, view_at
from equipoise.pipeline.lake.profiles import hub_profiles, quantiles, topic_profiles
from equipoise.pipeline.samples import WHERE_COLUMNS, sampled
from equipoise.pipeline.settings import Plausible
from equipoise.pipeline.sliding_window import SlidingWindow
from equipoise.pipeline.source.piece_rows import Rejection
from equipoise.pipeline.spark.session import SparkDriver
from equipoise.pipeline.validation import judged
from equipoise.telemetry import spark_schema
from equipoise.view import View
from pipeline.places import same_places
from pipeline.records import (
    SECOND_US,
    START_US,
    PlainReading,
    Record,
    assert_same_view,
    batch_of,
    hub_record,
    numbered,
    random_world,
    topic_record,
    view_of,
)

pytestmark = [pytest.mark.needs_spark, pytest.mark.xdist_group("spark")]


def frame(driver: SparkDriver, records: Sequence[Record]) -> DataFrame:
    return driver.session.createDataFrame(pa.Table.from_batches([batch_of(records)]))


def rows_of(found: DataFrame) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = found.toArrow().to_pylist()
    return rows


def worlds(count: int) -> list[Record]:
    """Several random worlds in one, none of which has a hub or a topic of another."""
    found = []
    for seed in range(count):
        for hub, records in random_world(seed).items():
            for record in records:
                own: Record = {"hub": f"{seed}-{hub}"}
                if record["kind"] == "topic":
                    own["topic"] = b"%d-%b" % (seed, record["topic"])
                found.append(record | own)
    return found


def agree(ours: dict[str, Any], theirs: dict[str, float]) -> None:
    for name, value in theirs.items():
        assert ours[name] == pytest.approx(value, rel=1e-6, abs=1e-6), (name, ours)


def same_view(view: View, reading: PlainReading) -> None:
    assert set(view.topics.names) == set(reading.topic_records)
    for row in view.topic_rows():
        agree({name: getattr(row, name) for name in reading.topic(row.name)}, reading.topic(row.name))
        same_places(row, reading.whereabouts(row.name))
    assert set(view.hubs.names) == set(reading.hub_records)
    for hub in view.hub_rows():
        agree({name: getattr(hub, name) for name in reading.hub(hub.name)}, reading.hub(hub.name))
        assert hub.coordinate == reading.coordinate(hub.name)


def test_the_view_of_any_moment_agrees_with_a_direct_computation(driver: SparkDriver) -> None:
    records = worlds(3)
    found = frame(driver, records).persist()
    times = sorted({record["time"] for record in records if record["kind"] == "hub"})
    for end_us in (times[0], times[len(times) // 2], times[-1], times[-1] + 4 * SECOND_US):
        same_view(view_of(view_at(found, end_us)), PlainReading(records, end_us))
    found.unpersist()


def test_the_view_of_a_past_moment_is_the_live_one(driver: SparkDriver) -> None:
    records = worlds(3)
    window = SlidingWindow()
    batch = judged(batch_of(records), now_us=START_US + 3600 * SECOND_US, plausible=Plausible())
    window.add(sampled([batch], Counter()))
    live = window.view()
    assert live is not None
    assert_same_view(view_of(live), view_of(view_at(frame(driver, records), window.end_us)))


def test_a_moment_without_a_record_is_an_error(driver: SparkDriver) -> None:
    with pytest.raises(PipelineError, match="no hub has a record"):
        view_at(frame(driver, worlds(1)), START_US - 60 * SECOND_US)


def test_rejected_records_are_counted_by_hub_and_reason(driver: SparkDriver) -> None:
    good = numbered("h1", [topic_record(b"t", START_US), hub_record(START_US)])
    stranger = numbered("h9", [hub_record(START_US)])
    negative = numbered("h1", [topic_record(b"t", START_US, publications=-1)], incarnation=2)
    endless = numbered("h2", [hub_record(START_US, cpu_ratio=float("nan"))])
    records = [*good, *stranger, *negative, *endless, good[1], good[1]]
    told = judged_records(frame(driver, records), now_us=START_US, known_hubs=["h1", "h2"]).persist()
    found = {(row["hub"], row["rejected"]): row["records"] for row in rows_of(rejections(told))}
    assert found == {
        ("h9", Rejection.UNKNOWN_HUB): 1,
        ("h1", Rejection.NEGATIVE): 1,
        ("h2", Rejection.NOT_FINITE): 1,
        ("h1", Rejection.DUPLICATE): 2,
    }
    assert sorted(row["sequence"] for row in rows_of(valid_records(told))) == [0, 1]
    told.unpersist()


def test_files_without_coordinate_columns_are_read(driver: SparkDriver, tmp_path: Path) -> None:
    records = pa.Table.from_batches([batch_of(worlds(1))])
    path = tmp_path / "old.parquet"
    pq.write_table(records.drop_columns(["coordinate", *WHERE_COLUMNS]), path)
    found = driver.session.read.schema(spark_schema()).parquet(str(path))
    end_us = max(record["time"] for record in worlds(1) if record["kind"] == "hub")
    view = view_of(view_at(found, end_us))
    assert view.topics.count > 0
    assert all(topic.publishers_at is None for topic in view.topic_rows())


def test_quantiles_are_at_most_a_fifth_too_high(driver: SparkDriver) -> None:
    rng = random.Random(7)
    values = [("a", rng.lognormvariate(3, 2)) for _ in range(500)] + [("b", 0.0)] * 3 + [("b", 5.0)]
    rows = driver.session.createDataFrame(values, "name string, value double")
    found = quantiles(rows, by=["name"], value=F.col("value"), name="value", ranks=(0.5, 0.95, 0.99))
    by_name = {row["name"]: row for row in rows_of(found)}
    ordered = sorted(value for name, value in values if name == "a")
    for rank in (0.5, 0.95, 0.99):
        exact = ordered[math.ceil(rank * len(ordered)) - 1]
        assert exact <= by_name["a"][f"value_p{rank * 100:g}"] <= 1.2 * exact
    assert by_name["b"]["value_p50"] == 0.0
    assert 5.0 <= by_name["b"]["value_p99"] <= 6.0


def test_profiles_sum_up_history(driver: SparkDriver) -> None:
    records = worlds(2)
    found = frame(driver, records).persist()
    topics = {row["topic"]: row for row in rows_of(topic_profiles(found))}
    counts = Counter(record["topic"] for record in records if record["kind"] == "topic")
    assert {topic: row["records"] for topic, row in topics.items()} == counts
    for topic, row in topics.items():
        own = [record for record in records if record.get("topic") == topic]
        assert row["publications"] == sum(record["publications"] for record in own)
        assert row["hubs"] == len({record["hub"] for record in own})
        rates = [record["publications"] / record["window_us"] * SECOND_US for record in own]
        assert row["publications_per_s_max"] == pytest.approx(max(rates))
    for row in rows_of(hub_profiles(found)):
        own = [record for record in records if record["kind"] == "hub" and record["hub"] == row["hub"]]
        assert row["covered_s"] == pytest.approx(sum(record["window_us"] for record in own) / SECOND_US)
        assert row["deliveries"] == sum(record["deliveries"] for record in own)
    found.unpersist()
