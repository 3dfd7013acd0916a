"""Work of executors: `task_results` turns pieces into results, `batch_result` sums them.

A task processes all pieces of its hubs in one pass, in Arrow: each additional pass would move the records between the
JVM and Python again. The steps of the pass are separate functions:

    unpacked   pieces → judged records         source/unpack.py
    sampled    judged records → samples        samples.py
    written    judged records → files          lake/writer.py
    _summed    samples → sums of hubs          hub_state.py, hub_sums.py

Spark expects as many output rows as input rows: the first row of a task has the result, the others are null.
(`mapInArrow` has no such rule, but needs pandas.)

Always true: all records of a hub in a batch are in one task, since the source has one partition per hub.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa  # type: ignore[import-untyped]  # It ships no types.
from pyspark.sql import DataFrame
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.pandas.types import from_arrow_type

from equipoise.pipeline.hub_state import HubState
from equipoise.pipeline.hub_sums import HubSums, hub_sums
from equipoise.pipeline.lake.writer import Written, written
from equipoise.pipeline.packed_tables import pack_table, unpack_table
from equipoise.pipeline.samples import HUB_SAMPLES, TOPIC_SAMPLES, Sampled, sampled
from equipoise.pipeline.settings import Plausible
from equipoise.pipeline.sliding_window import timely
from equipoise.pipeline.source.piece_rows import PIECES_SCHEMA, Rejection
from equipoise.pipeline.source.unpack import unpacked
from equipoise.pipeline.view_bound import ViewBound, bounded

__all__ = ["BatchResult", "SumTask", "TaskWork", "batch_result", "task_results"]

_COUNT = pa.struct([("hub", pa.string()), ("reason", pa.string()), ("records", pa.int64())])
_FILE = pa.struct([("name", pa.string()), ("records", pa.int64())])
# Tables are packed as Arrow streams, that of topics first, then that of hubs; an empty list: none was requested.
_RESULT = pa.struct(
    [
        ("samples", pa.list_(pa.binary())),
        ("sums", pa.list_(pa.binary())),
        ("records", pa.int64()),
        ("rejected", pa.list_(_COUNT)),
        ("files", pa.list_(_FILE)),
    ]
)
_COLUMN = "result"


class SumTask(NamedTuple):
    """How tasks keep and sum the windows of their hubs."""

    state: HubState
    # The start of the view's window so far: earlier samples are late.
    since_us: int
    # The topics of each hub that keep their names in the sums; None: all.
    bound: ViewBound | None = None


class TaskWork(NamedTuple):
    """The instructions for the tasks of a batch; the same for all of them."""

    now_us: int
    plausible: Plausible
    # The directory for records; None: they are not stored.
    lake: Path | None = None
    # Executors sum; None: they do not.
    sums: SumTask | None = None
    # The driver gets samples, and sums them.
    has_samples: bool = True


class BatchResult(NamedTuple):
    """The results of all tasks of a batch, on the driver."""

    samples: Sampled
    sums: list[HubSums]
    records: int
    files: list[Written]


def task_results(pieces: DataFrame, work: TaskWork) -> DataFrame:
    """One column, `result`: one row of each task has its result, the others are null."""

    def results(batches: Iterator[tuple[pa.Array, ...]]) -> Iterator[pa.Array]:
        rows = [
            row
            for columns in batches
            for row in pa.RecordBatch.from_arrays(list(columns), schema=PIECES_SCHEMA).to_pylist()
        ]
        if rows:
            yield pa.array([_task_result(rows, work), *[None] * (len(rows) - 1)], _RESULT)

    # The type hints of PySpark have no function of several columns.
    udf: Any = arrow_udf(results, from_arrow_type(_RESULT))  # type: ignore[call-overload]
    return pieces.select(udf(*PIECES_SCHEMA.names).alias(_COLUMN))


def batch_result(rows: pa.Table) -> BatchResult:
    """From the collected `task_results`."""
    topics, hubs = [TOPIC_SAMPLES.empty_table()], [HUB_SAMPLES.empty_table()]
    rejected: Counter[tuple[str, str]] = Counter()
    sums: list[HubSums] = []
    files: list[Written] = []
    records = 0
    for result in filter(None, rows.column(_COLUMN).to_pylist()):
        if result["samples"]:
            topics.append(unpack_table(result["samples"][0]))
            hubs.append(unpack_table(result["samples"][1]))
        if result["sums"]:
            sums.append(HubSums(*map(unpack_table, result["sums"])))
        records += result["records"]
        for each in result["rejected"]:
            rejected[each["hub"], each["reason"]] += each["records"]
        files += [Written(each["name"], each["records"]) for each in result["files"]]
    samples = Sampled(pa.concat_tables(topics), pa.concat_tables(hubs), rejected)
    return BatchResult(samples, sums, records, files)


def _task_result(rows: Sequence[Mapping[str, Any]], work: TaskWork) -> dict[str, Any]:
    """The pass over the pieces of one task; a value of `_RESULT`."""
    records, rejected = unpacked(rows, now_us=work.now_us, plausible=work.plausible)
    found = sampled(records, rejected)
    files = [] if work.lake is None else written(records, work.lake)
    # Late samples are counted by the executor where no other summer counts them.
    sums = [] if work.sums is None else _summed(found, work.sums, is_counting_late=not work.has_samples)
    return {
        "samples": [pack_table(found.topics), pack_table(found.hubs)] if work.has_samples else [],
        "sums": sums,
        "records": len(found.topics) + len(found.hubs),
        "rejected": [
            {"hub": hub, "reason": reason, "records": count}
            for (hub, reason), count in sorted(found.rejected.items())
        ],
        "files": [file._asdict() for file in files],
    }


def _summed(found: Sampled, task: SumTask, *, is_counting_late: bool) -> list[bytes]:
    kept, late = timely(found, task.since_us)
    if is_counting_late:
        for hub, count in late.items():
            found.rejected[hub, Rejection.LATE.value] += count
    window = task.state.updated(kept)
    if not len(window.hubs):
        return []
    made = hub_sums(window.topics, window.hubs, over_us=task.state.over_us)
    return [pack_table(table) for table in (made if task.bound is None else bounded(made, task.bound))]
