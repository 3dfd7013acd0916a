"""A real hub that is killed and restarted under its name and port, during a running query."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa  # type: ignore[import-untyped]  # It ships no types.
import pyarrow.compute as pc  # type: ignore[import-untyped]  # As above.
import pyarrow.parquet as pq  # type: ignore[import-untyped]  # As above.
import pytest
import redis

from equipoise.pipeline.lake.lake import Lake
from equipoise.pipeline.source.piece_rows import Rejection
from equipoise.pipeline.spark.session import SparkDriver
from pipeline.test_query import running, until
from support.processes import ServerProcess, hub

pytestmark = [pytest.mark.needs_spark, pytest.mark.timeout(300), pytest.mark.xdist_group("spark")]


def history(folder: Path) -> pa.Table:
    columns = ["incarnation", "sequence", "topic", "publications"]
    tables = [
        pq.read_table(path, columns=columns, partitioning=None) for path in Lake(folder / "lake").files()
    ]
    return pa.concat_tables(tables) if tables else pa.table({name: pa.array([]) for name in columns})


def published(folder: Path, topic: bytes) -> int:
    records = history(folder)
    own = records.filter(pc.equal(records.column("topic"), topic)) if len(records) else records
    return int(pc.sum(own.column("publications")).as_py() or 0)


def publish(server: ServerProcess, topic: bytes, count: int) -> None:
    with redis.Redis(port=server.port) as client:
        for _ in range(count):
            client.publish(topic, b"hello")


def test_a_hub_that_is_killed_and_restarted_is_read_from_its_first_record(
    driver: SparkDriver, tmp_path: Path
) -> None:
    """1. A hub is read; 2. it is killed and gives no answer for a while; 3. another life of it, whose numbers begin
    anew, below those that were read, is read whole; 4. nothing is there twice, or missing within either life."""
    with hub(name="h1") as first:
        port = first.port
        with running(driver, tmp_path, hubs=f"h1=127.0.0.1:{port}", timeout_s=5.0) as pipeline:
            publish(first, b"before", 30)
            until(lambda: published(tmp_path, b"before") == 30, pipeline)
            # So far that a reader that went on from here would miss the second life's records.
            until(lambda: max(history(tmp_path).column("sequence").to_pylist()) >= 5, pipeline)
            first.kill()
            until(lambda: pipeline.status.rejected[Rejection.UNANSWERED] > 0, pipeline)
            with hub(name="h1", port=port) as second:
                publish(second, b"after", 20)
                until(lambda: published(tmp_path, b"after") == 20, pipeline)
    records = history(tmp_path)
    assert published(tmp_path, b"before") == 30
    lives: dict[int, list[int]] = {}
    for row in records.to_pylist():
        lives.setdefault(row["incarnation"], []).append(row["sequence"])
    assert len(lives) == 2
    for numbers in lives.values():
        assert sorted(numbers) == list(range(len(numbers)))
