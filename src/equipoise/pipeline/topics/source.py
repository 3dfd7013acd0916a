"""Topics with a log as Spark streams and tables: offsets are positions, ranges are tasks.

Spark requests the ends of the logs, stores them, and lets tasks read the entries between two such states. A batch that
is repeated after a crash has the same entries, unless they were trimmed or deleted, which their number reveals.

Always true: an entry is returned once per range that contains it; a task reads a range through any hub that replies.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]  # It ships no types.
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from equipoise.errors import LedgerError, SettingsError
from equipoise.log.ids import ID_MIN, EntryId, before
from equipoise.pipeline.source.hub_connection import Door
from equipoise.pipeline.source.offsets import shared_out
from equipoise.pipeline.topic_settings import TopicReadSettings, TopicWriteSettings, read_options
from equipoise.pipeline.topics.hub_calls import HubCalls, doors_of, open_hubs
from equipoise.pipeline.topics.positions import (
    LogMark,
    LogRange,
    LogSteps,
    Marks,
    begun,
    decode,
    divided,
    encode,
    first_mark,
    mark_behind,
    missing,
    to_id,
)
from equipoise.pipeline.topics.rows import ROWS_DDL, row_batch
from equipoise.pipeline.topics.sink import TopicBatchWriter, TopicStreamWriter

__all__ = ["TopicSource"]

log = logging.getLogger("equipoise.pipeline")

# How long the list of topics that match a pattern is valid.
_NAMES_S = 5.0
_EARLIEST, _LATEST = "earliest", "latest"


class TopicSource(DataSource):
    """The format `equipoise`, with the options of `TopicReadSettings` and `TopicWriteSettings`."""

    @classmethod
    def name(cls) -> str:
        return "equipoise"

    def schema(self) -> str:
        return ROWS_DDL

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        return TopicStreamReader(read_options(TopicReadSettings, self.options))

    def reader(self, schema: StructType) -> DataSourceReader:
        return TopicBatchReader(read_options(TopicReadSettings, self.options))

    def streamWriter(self, schema: StructType, overwrite: bool) -> TopicStreamWriter:  # noqa: N802 - as above
        return TopicStreamWriter(read_options(TopicWriteSettings, self.options))

    def writer(self, schema: StructType, overwrite: bool) -> TopicBatchWriter:
        if overwrite:
            raise SettingsError("entries of a log are not overwritten: use the mode append")
        return TopicBatchWriter(read_options(TopicWriteSettings, self.options))


class RangePartition(InputPartition):
    """The range of one task, and the hubs' addresses when it was planned."""

    def __init__(self, span: LogRange, doors: list[Door]) -> None:
        super().__init__(None)
        self.span = span
        self.doors = doors


class LogPlanner:
    """Reads the ends of logs. Owned by a reader, on the driver."""

    def __init__(self, settings: TopicReadSettings) -> None:
        settings.check()
        self._settings = settings
        self._hubs = open_hubs(settings)
        self.calls = HubCalls(self.doors, settings.timeout_s)
        self._names: list[str] = []
        self._names_until = 0.0

    def doors(self) -> list[Door]:
        return doors_of(self._hubs, self._settings)

    def topics(self) -> list[str]:
        if self._settings.topic:
            return [self._settings.topic]
        if time.monotonic() >= self._names_until:
            self._names = self.calls.names(self._settings.pattern)
            self._names_until = time.monotonic() + _NAMES_S
        return self._names

    def begin(self, offsets: str) -> Marks:
        """The first marks of a query."""
        return {topic: self.mark(topic, offsets) for topic in self.topics()}

    def mark(self, topic: str, offsets: str, *, is_end: bool = False) -> LogMark:
        """The mark of a word or an id; entries from an id on, or up to it at the end."""
        first = self.calls.steps(topic)
        if offsets == _EARLIEST:
            return first_mark(first)
        if offsets == _LATEST:
            return LogMark(first.last, first.added, first.added)
        at = _id(offsets)
        at = min(at if is_end else before(at) or ID_MIN, first.last)
        found = self.calls.steps(topic, at)
        n = found.added - found.behind
        return LogMark(at, n, n)

    def behind(self, topic: str, mark: LogMark | None) -> tuple[LogMark, LogSteps]:
        """The mark to continue from, and the steps after it. Raises LedgerError for missing entries, if so
        configured.
        """
        if mark is None:
            found = self.calls.steps(topic)
            return first_mark(found), found
        found = self.calls.steps(topic, mark.at)
        gone = missing(mark, found)
        if gone is None:
            lost(self._settings, topic, "the log was deleted since it was last read")
            found = self.calls.steps(topic)
            return first_mark(found, mark.life + 1), found
        if gone:
            lost(self._settings, topic, f"{gone} entries were trimmed or deleted before they were read")
        return mark, found

    def ranges(self, start: Marks, end: Marks) -> list[LogRange]:
        found: list[LogRange] = []
        for topic, until in sorted(end.items()):
            since = begun(start.get(topic), until)
            count = until.n - since.n
            if until.at <= since.at or count <= 0:
                continue
            tasks = -(-count // self._settings.records_per_task)
            step = -(-count // tasks)
            ids = self.calls.steps(topic, since.at, step, tasks - 1).ids if tasks > 1 else ()
            found += divided(topic, since, until, step, ids)
        return found

    def partitions(self, start: Marks, end: Marks) -> list[RangePartition]:
        doors = self.doors()
        return [RangePartition(span, doors) for span in self.ranges(start, end)]

    def close(self) -> None:
        self.calls.close()
        self._hubs.close()


def _id(text: str) -> EntryId:
    try:
        return to_id(text)
    except ValueError as problem:
        raise SettingsError(
            f"{text!r} is neither earliest, latest nor an id such as 1700000000000-0"
        ) from problem


def lost(settings: TopicReadSettings, topic: str, what: str) -> None:
    if settings.fail_on_data_loss:
        raise LedgerError(0, f"topic {topic}: {what}. Set failOnDataLoss to false to go on without them")
    log.warning("topic %s: %s", topic, what)


def read_range(settings: TopicReadSettings, partition: InputPartition) -> Iterator[pa.RecordBatch]:
    """In a task: the entries of its range."""
    assert isinstance(partition, RangePartition)
    span, doors = partition.span, partition.doors
    calls = HubCalls(lambda: doors, settings.timeout_s)
    count = 0
    try:
        for page in calls.pages(span.topic, span.after, span.until):
            count += len(page)
            yield row_batch(span.topic, page)
    finally:
        calls.close()
    if count < span.entries:
        lost(
            settings,
            span.topic,
            f"{span.entries - count} entries were trimmed or deleted before they were read",
        )


class TopicStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Lives as long as the query, on the driver; `read` runs on copies of it, on executors."""

    def __init__(self, settings: TopicReadSettings) -> None:
        self._settings = settings
        self._planner = LogPlanner(settings)
        # The end of a query that reads the present entries and ends.
        self._target: Marks | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        # Without topics yet, new ones are read from their beginning.
        return encode(self._planner.begin(self._settings.starting_offsets or _LATEST))

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        return ReadMaxRows(self._settings.max_records_per_trigger)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        planner = self._planner
        self._target = {topic: planner.mark(topic, _LATEST) for topic in planner.topics()}

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802 - Spark's name
        marks, planner = decode(start), self._planner
        topics = planner.topics() if self._target is None else list(self._target)
        found = {topic: planner.behind(topic, marks.get(topic)) for topic in topics}
        wanted = {topic: self._wanted(topic, mark, steps) for topic, (mark, steps) in found.items()}
        rows_max = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        if rows_max is None and not isinstance(limit, ReadAllAvailable):
            rows_max = self._settings.max_records_per_trigger
        end = dict(marks)
        for topic, taken in shared_out(wanted, rows_max).items():
            mark, steps = found[topic]
            if 0 < taken < steps.behind:
                steps = planner.calls.steps(topic, mark.at, taken, 1)
            end[topic] = mark_behind(mark, steps, taken)
        return encode(end)

    def _wanted(self, topic: str, mark: LogMark, steps: LogSteps) -> int:
        if self._target is None:
            return steps.behind
        return max(0, min(steps.behind, self._target[topic].n - mark.n))

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        return self._planner.partitions(decode(start), decode(end))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_range(self._settings, partition)

    def stop(self) -> None:
        self._planner.close()

    def __getstate__(self) -> dict[str, Any]:
        """For executors, which only read."""
        return {"_settings": self._settings}


class TopicBatchReader(DataSourceReader):
    """A table of the logs' entries."""

    def __init__(self, settings: TopicReadSettings) -> None:
        self._settings = settings

    def partitions(self) -> Sequence[InputPartition]:
        settings, planner = self._settings, LogPlanner(self._settings)
        try:
            start = planner.begin(settings.starting_offsets or _EARLIEST)
            end = {topic: planner.mark(topic, settings.ending_offsets, is_end=True) for topic in start}
            # A single request per log gives it one beginning.
            end = {topic: mark._replace(since=start[topic].since) for topic, mark in end.items()}
            return planner.partitions(start, end)
        finally:
            planner.close()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_range(self._settings, partition)
