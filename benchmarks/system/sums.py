"""Where should windows be summed, on the driver or by executors, and how far does either go?

    python benchmarks/system/sums.py [--hubs 4] [--topics 12500] [--seconds 20] [--master local[2]] [--out FOLDER]

Estimate: validating and sampling a record takes some 1 µs, grouping the ten seconds that it stays in the window another
10 × 0.1 µs; on the driver the second part is one thread's, so 500,000 records a second are where it is full. On
executors it is spread over tasks, at the price of a file per hub and second.

Finding: docs/internals/pipeline.md.

Method: telemetry as hubs send it is generated once and kept as Parquet, one file per hub and second, so that no hub, no
network and no clock takes part. Each second is one batch of the live query's own code, without a lake: tasks, then the
view on the driver. The two ways take turns, batch by batch, so that whatever else the machine does falls on both. Wall
time and CPU (of the driver's Python, and of the JVMs and workers) are medians over the batches of a full window.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]  # It ships no types.
import pyarrow.parquet as pq  # type: ignore[import-untyped]  # As above.
from pyspark.sql.pandas.types import from_arrow_schema

from equipoise.pipeline.batch_task import SumTask, TaskWork, batch_result, task_results
from equipoise.pipeline.hub_state import HubState
from equipoise.pipeline.settings import Plausible, SessionSettings
from equipoise.pipeline.sliding_window import JoinedWindow, SlidingWindow
from equipoise.pipeline.source.piece_rows import PIECES_SCHEMA, piece_row
from equipoise.pipeline.spark.session import SparkDriver
from equipoise.profile.environment import keep
from equipoise.profile.meters import process_cpu_s
from equipoise.telemetry import arrow_schema
from equipoise.view.codec import encode_view, from_tables

START_US = 1_790_000_000 * 1_000_000
SECOND_US = 1_000_000
# The window is full from here on.
WARM_BATCHES = 10


def second(hub: int, at: int, topics: int) -> pa.RecordBatch:
    """What one hub records in one second: all its topics, and itself."""
    rng = np.random.default_rng(hub * 1000 + at)
    count = topics + 1
    is_topic = np.arange(count) < topics
    made: dict[str, Any] = {
        "kind": pa.array(np.where(is_topic, "topic", "hub").tolist()),
        "hub": pa.array([f"h{hub}"] * count),
        "topic": pa.array([b"topic-%d-%d" % (hub, n) for n in range(topics)] + [None], pa.binary()),
        "role": pa.array(["home"] * topics + [None]),
        "incarnation": np.ones(count, np.int64),
        "sequence": np.arange(at * count, (at + 1) * count),
        "time": pa.array(np.full(count, START_US + at * SECOND_US)).cast(pa.timestamp("us", tz="UTC")),
        "window_us": np.full(count, SECOND_US),
        "cpu_ratio": pa.array([None] * topics + [0.5], pa.float64()),
        "out_bytes_per_s": pa.array([None] * topics + [1e6], pa.float64()),
    }
    for name in ("publications", "deliveries", "bytes_in", "bytes_out", "subscribers", "publishers"):
        made[name] = rng.integers(0, 1000, count)
    columns = [
        pa.array(made[field.name], field.type) if field.name in made else pa.nulls(count, field.type)
        for field in arrow_schema()
    ]
    return pa.RecordBatch.from_arrays(columns, schema=arrow_schema())


def generate(folder: Path, hubs: int, topics: int, seconds: int) -> None:
    for at in range(seconds):
        (folder / f"{at:03d}").mkdir(parents=True)
        for hub in range(hubs):
            batch = second(hub, at, topics)
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, batch.schema) as writer:
                writer.write_batch(batch)
            row = piece_row(f"h{hub}", 1, at * len(batch), (at + 1) * len(batch), bytes(sink.getvalue()))
            pq.write_table(pa.Table.from_batches([row]), folder / f"{at:03d}" / f"h{hub}.parquet")


class Way:
    """One way to sum, fed batch by batch."""

    def __init__(self, driver: SparkDriver, folder: Path, *, is_on_executors: bool) -> None:
        self._session = driver.session
        self._jvm = driver.jvm.pid
        self._tasks = driver.session.sparkContext.defaultParallelism
        self._folder = folder
        self.is_on_executors = is_on_executors
        self.window: JoinedWindow | SlidingWindow = JoinedWindow() if is_on_executors else SlidingWindow()
        self.took: list[dict[str, float]] = []
        self.view_bytes = 0

    def batch(self, at: int) -> None:
        window, before_s = self.window, self._cpu()
        pieces = self._session.read.schema(from_arrow_schema(PIECES_SCHEMA)).parquet(
            str(self._folder / f"{at:03d}")
        )
        state = HubState(self._folder / "state", at, window.over_us)
        task = SumTask(state, max(0, window.start_us)) if self.is_on_executors else None
        began_s = time.perf_counter()
        now_us = START_US + 3600 * SECOND_US
        work = TaskWork(now_us, Plausible(), sums=task, has_samples=task is None)
        rows = task_results(pieces.coalesce(self._tasks), work).toArrow()
        worked_s = time.perf_counter()
        done = batch_result(rows)
        if isinstance(window, JoinedWindow):
            window.add(done.sums)
        else:
            window.add(done.samples)
        view = window.view()
        assert view is not None
        shown_s, after_s = time.perf_counter(), self._cpu()
        self.view_bytes = len(encode_view(view.time_s, view.window_s, view.tables))
        took = {"tasks_s": worked_s - began_s, "view_s": shown_s - worked_s, "batch_s": shown_s - began_s}
        self.took.append(took | {name: after_s[name] - before_s[name] for name in after_s})

    def _cpu(self) -> dict[str, float]:
        others = sum(_cpu_of(pid) for pid in [self._jvm, *_descendants(self._jvm)])
        return {"driver_cpu_s": time.process_time(), "spark_cpu_s": others}

    @property
    def medians(self) -> dict[str, float]:
        told = self.took[WARM_BATCHES:]
        return {name: round(statistics.median(each[name] for each in told), 4) for name in told[0]}


def _cpu_of(pid: int) -> float:
    try:
        return process_cpu_s(pid)
    except (OSError, ValueError, IndexError):
        return 0.0


def _descendants(pid: int) -> list[int]:
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            children = task.read_text().split()
        except OSError:
            continue
        for child in children:
            found += [int(child), *_descendants(int(child))]
    return found


def compare(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    generate(folder, options.hubs, options.topics, options.seconds)
    driver = SparkDriver.start(SessionSettings(master=options.master))
    try:
        # A file is a hub's, and a hub's records are one partition's.
        driver.session.conf.set("spark.sql.files.openCostInBytes", str(1 << 30))
        names = {"driver": False, "executors": True}
        ways = {
            name: Way(driver, folder, is_on_executors=is_on_executors)
            for name, is_on_executors in names.items()
            if options.sums in (name, "both")
        }
        for at in range(options.seconds):
            for way in ways.values():
                way.batch(at)
        told = {name: way.medians | {"view_bytes": way.view_bytes} for name, way in ways.items()}
        views = [way.window.view() for way in ways.values()]
        difference = 0.0
        if len(views) == 2 and views[0] is not None and views[1] is not None:
            one, other = (from_tables(view.time_s, view.tables) for view in views if view is not None)
            order = [other.topic_index[name] for name in one.topics.names]
            gap = np.abs(one.topics.out_bytes_per_s - other.topics.out_bytes_per_s[order])
            difference = float((gap / np.maximum(one.topics.out_bytes_per_s, 1e-9)).max(initial=0.0))
        return {
            "ways": told,
            "difference_max": difference,
            "tasks": driver.session.sparkContext.defaultParallelism,
        }
    finally:
        driver.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--hubs", type=int, default=4)
    parser.add_argument("--topics", type=int, default=12_500, help="at each hub")
    parser.add_argument("--seconds", type=int, default=24)
    parser.add_argument("--master", default="local[2]", help="such as local-cluster[2,1,1024]")
    parser.add_argument("--sums", choices=("driver", "executors", "both"), default="both")
    parser.add_argument("--out", type=Path, help="folder to keep the dated result in")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        before = os.getloadavg()[0]
        found = compare(options, Path(folder))
    asked = {name: getattr(options, name) for name in ("hubs", "topics", "seconds", "master")}
    load = {"before": before, "after": os.getloadavg()[0]}
    told = {**asked, "records_per_s": options.hubs * (options.topics + 1), **found, "load_average": load}
    print(keep("sums", told, options.out), end="")


if __name__ == "__main__":
    main()
