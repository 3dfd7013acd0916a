"""Compact the lake: merge small files, delete replaced ones, expire old ones.

The pipeline adds a file per second; readers need few and large ones. Merging is an ordinary Spark job: the driver
chooses groups of files, workers read and write them.

Always true: a merged file holds the same records as the files that it replaces, and readers see either those or it.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import pyarrow as pa  # type: ignore[import-untyped]  # It ships no types.
import pyarrow.parquet as pq  # type: ignore[import-untyped]  # As above.

from equipoise.pipeline.lake.lake import Lake, Merge
from equipoise.pipeline.lake.writer import hour_folder, open_parquet
from equipoise.pipeline.settings import KeepingSettings
from equipoise.telemetry import arrow_schema

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Kept", "groups", "keep", "merged"]

log = logging.getLogger("equipoise.pipeline")

_GROUPS_PER_CORE = 3


class Kept(NamedTuple):
    """The result of one round."""

    merged: int
    deleted: int
    expired: int


def keep(
    session: SparkSession,
    lake: Lake,
    settings: KeepingSettings,
    *,
    is_all: bool = False,
    clock: Callable[[], float] = time.time,
    tell: Callable[[int], None] = lambda _: None,
) -> Kept:
    """One round. `is_all`: merge every hour with two small files, including the present one.

    `tell` is called with the number of merged files so far.
    """
    now_s = clock()
    present = hour_folder(int(now_s * 1e6))
    chosen = groups(lake, settings, present_hour=present, is_all=is_all)
    context, folder, count = session.sparkContext, str(lake.folder), 0
    # Some tasks for each core at a time, so that merged files are in place, and reported, before the last is done.
    step = _GROUPS_PER_CORE * context.defaultParallelism
    for first_group in range(0, len(chosen), step):
        jobs = [(folder, group) for group in chosen[first_group : first_group + step]]
        for merge in context.parallelize(jobs, len(jobs)).map(_merge).collect():
            name = Path(merge.staged).parent.name
            if lake.merge(msgspec.structs.replace(merge, at_s=clock()), name):
                count += len(merge.replaced)
        tell(sum(map(len, chosen[: first_group + step])))
    first = datetime.fromtimestamp(now_s, UTC) - timedelta(hours=settings.retention_h)
    return Kept(
        merged=count,
        deleted=lake.clean(before_s=now_s - settings.replaced_retention_s),
        expired=lake.expire(hour_folder(int(first.timestamp() * 1e6))),
    )


def groups(
    lake: Lake, settings: KeepingSettings, *, present_hour: str, is_all: bool = False
) -> list[list[str]]:
    """The groups of files to merge, hour by hour; names relative to the lake."""
    found = []
    for hour in lake.hours():
        small = [path for path in lake.files([hour]) if path.stat().st_size < settings.file_bytes_max]
        files_min = settings.files_min if hour == present_hour and not is_all else 2
        if len(small) >= files_min:
            found += _split(small, settings.file_bytes_max, lake.folder)
    return found


def merged(lake: Path, names: Sequence[str]) -> Merge:
    """Write one file with the records of several, into the staging."""
    hour = Path(names[0]).parent
    name = uuid.uuid4().hex
    staged = f"_staging/{name}/records.parquet"
    (lake / staged).parent.mkdir(parents=True)
    with open_parquet(lake / staged) as writer:
        waiting: list[pa.Table] = []
        for each in names:
            waiting.append(pq.read_table(lake / each, schema=arrow_schema(), partitioning=None))
            # Rows that are compressed together: enough for good compression, few enough for a worker's memory.
            if sum(map(len, waiting)) >= 200_000:
                writer.write_table(pa.concat_tables(waiting))
                waiting = []
        if waiting:
            writer.write_table(pa.concat_tables(waiting))
    return Merge(staged=staged, final=f"{hour}/m-{name}.parquet", replaced=list(names), at_s=0.0)


def _merge(job: tuple[str, list[str]]) -> Merge:
    return merged(Path(job[0]), job[1])


def _split(paths: list[Path], bytes_max: int, folder: Path) -> list[list[str]]:
    """Groups of about the wanted size; groups of one file are left out."""
    made: list[list[str]] = []
    size = bytes_max
    for path in paths:
        size += path.stat().st_size
        if size > bytes_max:
            made.append([])
            size = path.stat().st_size
        made[-1].append(str(path.relative_to(folder)))
    return [group for group in made if len(group) > 1]
