"""What a task does with the pieces of its hubs: validate, sample, write them to the lake, and sum the window.

What comes back from each task:
    samples   samples about topics and about hubs, where the driver sums: two Arrow streams
    sums      sums of each topic and hub and of each hub, where executors sum: likewise
    rejected  how many records were rejected, by hub and reason
    files     what was written into the lake's staging, if there is a lake

Spark wants as many rows back as it gave: the first has everything, the others nothing. (`mapInArrow` would not, but
needs pandas.)

Always true: all records of a hub in a batch are in one task, since the source has one partition per hub.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa  # type: ignore[import-untyped]  # It ships no types.
from pyspark.sql import DataFrame
from pyspark.sql.pandas.functions import arrow_udf

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

__all__ = ["SumTask", "Worked", "worked", "worked_pieces"]

_COUNT = pa.struct([("hub", pa.string()), ("reason", pa.string()), ("records", pa.int64())])
_FILE = pa.struct([("name", pa.string()), ("records", pa.int64())])
_RESULT = pa.struct(
    [
        ("samples", pa.list_(pa.binary())),
        ("sums", pa.list_(pa.binary())),
        ("records", pa.int64()),
        ("rejected", pa.list_(_COUNT)),
        ("files", pa.list_(_FILE)),
    ]
)
_RESULT_DDL = (
    "struct<samples array<binary>, sums array<binary>, records bigint, "
    "rejected array<struct<hub string, reason string, records bigint>>, "
    "files array<struct<name string, records bigint>>>"
)


class SumTask(NamedTuple):
    """That tasks keep and sum the window themselves."""

    state: HubState
    # The start of the window until now: samples from before it are late.
    since_us: int
    # What views name of each hub; None: everything.
    bound: ViewBound | None = None


class Worked(NamedTuple):
    """Of a whole batch, on the driver."""

    samples: Sampled
    sums: list[HubSums]
    records: int
    files: list[Written]


def worked_pieces(
    pieces: DataFrame,
    *,
    now_us: int,
    plausible: Plausible,
    lake: Path | None = None,
    sums: SumTask | None = None,
    has_samples: bool = True,
) -> DataFrame:
    """One column `worked`. `sums`: executors sum; `has_samples`: the driver gets samples, to sum them."""

    def work(batches: Iterator[tuple[pa.Array, ...]]) -> Iterator[pa.Array]:
        rows = [
            row
            for columns in batches
            for row in pa.RecordBatch.from_arrays(list(columns), schema=PIECES_SCHEMA).to_pylist()
        ]
        if not rows:
            return
        records, rejected = unpacked(rows, now_us=now_us, plausible=plausible)
        found = sampled(records, rejected)
        count = len(found.topics) + len(found.hubs)
        files = [] if lake is None else written(records, lake)
        summed = [] if sums is None else _summed(found, sums, is_counting_late=not has_samples)
        result = {
            "samples": [pack_table(table) for table in found[:2]] if has_samples else [],
            "sums": summed,
            "records": count,
            "rejected": [
                {"hub": hub, "reason": reason, "records": number}
                for (hub, reason), number in sorted(found.rejected.items())
            ],
            "files": [file._asdict() for file in files],
        }
        yield pa.array([result, *[None] * (len(rows) - 1)], _RESULT)

    # Its type hints for PySpark know no function of several columns.
    udf: Any = arrow_udf(work, _RESULT_DDL)  # type: ignore[call-overload]
    return pieces.select(udf(*PIECES_SCHEMA.names).alias("worked"))


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


def worked(rows: pa.Table) -> Worked:
    """What all tasks returned, together."""
    topics, hubs = [TOPIC_SAMPLES.empty_table()], [HUB_SAMPLES.empty_table()]
    rejected: Counter[tuple[str, str]] = Counter()
    sums: list[HubSums] = []
    files: list[Written] = []
    records = 0
    for result in filter(None, rows.column("worked").to_pylist()):
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
    return Worked(samples, sums, records, files)
