"""What does a second of one hub's records cost a task: to unpack and validate, to sample, to write to the lake?

    python benchmarks/micro/task_cost.py [--topics 12500] [--out benchmarks/results]

A hub answers in Arrow batches of at most a thousand records, some of them shorter. Each of fifty columns costs tens of
microseconds a batch in validating, sampling and writing, whatever it holds; so batches of one hub are put together
first. Estimate: 50 columns × 3 steps × 25 µs = 4 ms a batch, 13 batches: 50 ms, against 4 ms and the work itself.

Finding (12,500 records, CPU time, best of 9): one batch 20 ms (1.6 µs a record); by batches of 512, as it was done
before, 124 ms (9.9 µs).
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]  # It ships no types.

from equipoise.pipeline.lake.writer import written
from equipoise.pipeline.samples import sampled
from equipoise.pipeline.settings import Plausible
from equipoise.pipeline.source.piece_rows import piece_row
from equipoise.pipeline.source.unpack import unpacked
from equipoise.profile.environment import report_result
from equipoise.telemetry import arrow_schema

TIME_US = 1_790_000_000 * 1_000_000
# What a piece of at most 2 MiB holds, about.
PIECE_RECORDS = 4_000
BATCH_RECORDS = 512


def records(topics: int) -> pa.RecordBatch:
    """About each topic, and one about the hub."""
    count = topics + 1
    numbers = ("publications", "deliveries", "bytes_in", "bytes_out", "subscribers")
    same: dict[str, Any] = {"hub": "h1", "incarnation": 1, "time": TIME_US, "window_us": 1_000_000}
    made: dict[str, Any] = {name: [value] * count for name, value in same.items()}
    made |= {name: [100] * count for name in numbers}
    made["kind"] = ["topic"] * topics + ["hub"]
    made["role"] = ["home"] * topics + [None]
    made["topic"] = [b"topic-%d" % number for number in range(topics)] + [None]
    made["sequence"] = list(range(count))
    made["cpu_ratio"] = [None] * topics + [0.5]
    columns = [pa.array(made.get(field.name, [None] * count), field.type) for field in arrow_schema()]
    return pa.RecordBatch.from_arrays(columns, schema=arrow_schema())


def pieces(topics: int) -> list[dict[str, Any]]:
    """A second of one hub, as the source gives it to tasks."""
    second = records(topics)
    made = []
    for first in range(0, len(second), PIECE_RECORDS):
        part = second.slice(first, PIECE_RECORDS)
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, part.schema) as stream:
            for at in range(0, len(part), BATCH_RECORDS):
                stream.write_batch(part.slice(at, BATCH_RECORDS))
        row = piece_row("h1", 1, first, first + len(part), sink.getvalue().to_pybytes())
        made += row.to_pylist()
    return made


def best_ms(work: Callable[[], Any]) -> float:
    taken = []
    for _ in range(9):
        begun = time.process_time()
        work()
        taken.append(time.process_time() - begun)
    return round(1e3 * min(taken), 2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--topics", type=int, default=12_500)
    parser.add_argument("--out", type=Path, help="folder to keep the dated result in")
    options = parser.parse_args()
    rows, now_us = pieces(options.topics), TIME_US + 60_000_000
    found, rejected = unpacked(rows, now_us=now_us, plausible=Plausible())
    with tempfile.TemporaryDirectory() as folder:
        took = {
            "unpack_ms": best_ms(lambda: unpacked(rows, now_us=now_us, plausible=Plausible())),
            "sample_ms": best_ms(lambda: sampled(found, rejected)),
            "lake_ms": best_ms(lambda: written(found, Path(folder))),
        }
    per_record_us = round(1e3 * sum(took.values()) / options.topics, 2)
    report_result(
        "task-cost", {"topics": options.topics, **took, "per_record_us": per_record_us}, options.out
    )


if __name__ == "__main__":
    main()
