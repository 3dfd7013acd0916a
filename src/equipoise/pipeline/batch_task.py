"""What workers do with the pieces of a batch: judge them, sample them and write them to the lake, in one pass.

A row of the result has, for some pieces together:
    topics    samples about topics, as an Arrow stream
    hubs      samples about hubs, likewise
    rejected  how many records were rejected, by hub and reason
    files     what was written into the lake's staging, if there is a lake

Spark wants as many rows back as it gave: the first has everything, the others nothing.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa  # type: ignore[import-untyped]  # It ships no types.
from pyspark.sql import DataFrame
from pyspark.sql.pandas.functions import arrow_udf

from equipoise.pipeline.lake.writer import Written, written
from equipoise.pipeline.samples import HUB_SAMPLES, TOPIC_SAMPLES, Sampled, sampled
from equipoise.pipeline.settings import Plausible
from equipoise.pipeline.source.piece_rows import PIECES_SCHEMA
from equipoise.pipeline.source.unpack import unpacked

__all__ = ["Worked", "worked", "worked_pieces"]

_COUNT = pa.struct([("hub", pa.string()), ("reason", pa.string()), ("records", pa.int64())])
_FILE = pa.struct([("name", pa.string()), ("records", pa.int64())])
_RESULT = pa.struct(
    [
        ("topics", pa.binary()),
        ("hubs", pa.binary()),
        ("rejected", pa.list_(_COUNT)),
        ("files", pa.list_(_FILE)),
    ]
)
_RESULT_DDL = (
    "struct<topics binary, hubs binary, rejected array<struct<hub string, reason string, records bigint>>, "
    "files array<struct<name string, records bigint>>>"
)


class Worked(NamedTuple):
    """Of a whole batch, on the driver."""

    samples: Sampled
    files: list[Written]


def worked_pieces(pieces: DataFrame, *, now_us: int, plausible: Plausible, lake: Path | None) -> DataFrame:
    """One column `worked`. Without a lake nothing is written."""

    def work(*columns: pa.Array) -> pa.Array:
        rows = pa.RecordBatch.from_arrays(list(columns), schema=PIECES_SCHEMA).to_pylist()
        records, rejected = unpacked(rows, now_us=now_us, plausible=plausible)
        found = sampled(records, rejected)
        files = [] if lake is None else written(records, lake)
        return pa.array([_told(found, files), *[None] * (len(rows) - 1)], _RESULT)

    # Its type hints for PySpark know no function of several columns.
    udf: Any = arrow_udf(work, _RESULT_DDL)  # type: ignore[call-overload]
    return pieces.select(udf(*PIECES_SCHEMA.names).alias("worked"))


def worked(rows: pa.Table) -> Worked:
    """What all workers told, together."""
    topics, hubs = [TOPIC_SAMPLES.empty_table()], [HUB_SAMPLES.empty_table()]
    rejected: Counter[tuple[str, str]] = Counter()
    files: list[Written] = []
    for told in rows.column("worked").to_pylist():
        if told is not None:
            topics.append(pa.ipc.open_stream(told["topics"]).read_all())
            hubs.append(pa.ipc.open_stream(told["hubs"]).read_all())
            for each in told["rejected"]:
                rejected[each["hub"], each["reason"]] += each["records"]
            files += [Written(each["name"], each["records"]) for each in told["files"]]
    return Worked(Sampled(pa.concat_tables(topics), pa.concat_tables(hubs), rejected), files)


def _told(found: Sampled, files: list[Written]) -> dict[str, Any]:
    counts = sorted(found.rejected.items())
    return {
        "topics": _packed(found.topics),
        "hubs": _packed(found.hubs),
        "rejected": [{"hub": hub, "reason": reason, "records": count} for (hub, reason), count in counts],
        "files": [file._asdict() for file in files],
    }


def _packed(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table.combine_chunks())
    return bytes(sink.getvalue())
