"""Write records as Parquet in Spark's workers, and report the files to the driver.

Arrow's writer takes a twentieth of the time of Spark's for the forty columns of telemetry. Files are written into the
lake's staging under unique names: a task that Spark runs twice leaves an unused file there, and none in the lake.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa  # type: ignore[import-untyped]  # It ships no types.
import pyarrow.compute as pc  # type: ignore[import-untyped]  # As above.
import pyarrow.parquet as pq  # type: ignore[import-untyped]  # As above.

from equipoise.telemetry import arrow_schema

__all__ = ["Written", "hour_folder", "open_parquet", "written"]

_HOUR_US = 3_600_000_000


class Written(NamedTuple):
    """A file in the staging."""

    # Relative to the lake.
    name: str
    records: int


def written(records: Iterable[pa.RecordBatch], lake: Path) -> list[Written]:
    """Write the valid ones of judged records, one file for each hour."""
    folder = f"_staging/{uuid.uuid4().hex}"
    writers: dict[str, pq.ParquetWriter] = {}
    counts: Counter[str] = Counter()
    try:
        for batch in records:
            for hour, rows in _by_hour(_valid(batch)):
                name = f"{folder}/{hour_folder(hour * _HOUR_US)}/records.parquet"
                if name not in writers:
                    (lake / name).parent.mkdir(parents=True)
                    writers[name] = open_parquet(lake / name)
                writers[name].write_batch(rows)
                counts[name] += len(rows)
    finally:
        for writer in writers.values():
            writer.close()
    return [Written(name, count) for name, count in counts.items()]


def open_parquet(path: Path) -> pq.ParquetWriter:
    # Names repeat in every window; numbers rarely do.
    return pq.ParquetWriter(
        path,
        arrow_schema(),
        compression="zstd",
        use_dictionary=["kind", "hub", "topic", "role", "publisher_group"],
    )


def hour_folder(time_us: int) -> str:
    moment = datetime.fromtimestamp(time_us / 1e6, UTC)
    return f"date={moment:%Y-%m-%d}/hour={moment:%H}"


def _valid(records: pa.RecordBatch) -> pa.RecordBatch:
    rejected = records.column("rejected")
    valid = records.filter(rejected.is_null()) if rejected.null_count < len(records) else records
    return valid.select(arrow_schema().names)


def _by_hour(records: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
    hours = pc.divide(records.column("time").cast(pa.int64()), _HOUR_US)
    found = hours.unique().to_pylist()
    for hour in found:
        yield hour, records if len(found) == 1 else records.filter(pc.equal(hours, hour))
