"""Write Spark rows as log entries, each once, for any number of runs of a task or batch.

By default a row is identified by its query, its partition, its batch, and its number among the rows for its topic: the
log keeps the progress of each partition (`SEQUENCE`), which costs one number. That requires that a repeated batch has
the same rows in the same order. Other rows need an id of their own (`idColumn`), of which the log keeps the latest
(`IDMP`).

Always true: `write` returns once every row is in its log, committed; unconfirmed rows are sent again.
"""

from __future__ import annotations

import time
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from uuid import uuid4

import pyarrow as pa  # type: ignore[import-untyped]  # It ships no types.
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from equipoise.errors import DisconnectedError, PipelineError, RefusedError
from equipoise.pipeline.source.hub_connection import Door
from equipoise.pipeline.topic_settings import TopicWriteSettings
from equipoise.pipeline.topics.hub_calls import HubCalls, doors_of, is_passing, open_hubs
from equipoise.pipeline.topics.rows import outgoing

__all__ = ["TopicBatchWriter", "TopicStreamWriter"]

# Rows per request.
_ROWS_MAX = 500
_BYTES_MAX = 1024 * 1024
_RETRY_S = 0.1
# Ids of rows are divided among this many producers, each with up to IDMP-MAXSIZE ids: 2.5 million rows, for a day.
_SHARDS = 256
_IDS_MAX, _IDS_DURATION_S = 10_000, 86_400
_QUERY_KEY, _BATCH_KEY = "sql.streaming.queryId", "streaming.sql.batchId"

Words = list[bytes]


class TopicStreamWriter(DataSourceStreamArrowWriter):
    """Made on the driver; `write` runs on copies of it, on executors."""

    def __init__(self, settings: TopicWriteSettings) -> None:
        self._settings = settings
        self._doors = _doors(settings)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        context = TaskContext.get()
        assert context is not None, "it runs in a task"
        query, batch = context.getLocalProperty(_QUERY_KEY), context.getLocalProperty(_BATCH_KEY)
        if query is None or batch is None:
            raise PipelineError("Spark does not name the query and batch of this task")
        producer = f"spark/{query}/{context.partitionId()}"
        _Sender(self._settings, self._doors, f"spark/{query}", producer, int(batch)).send_all(iterator)
        return WriterCommitMessage()

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's
        """Every row is committed already."""

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's
        """Added entries stay: the batch is repeated, and adds the rest."""


class TopicBatchWriter(DataSourceArrowWriter):
    """As above. A restarted job is another job; a repeated task is the same."""

    def __init__(self, settings: TopicWriteSettings) -> None:
        self._settings = settings
        self._doors = _doors(settings)
        self._job = f"spark/{uuid4()}"

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        context = TaskContext.get()
        assert context is not None, "it runs in a task"
        job, producer = self._job, f"{self._job}/{context.partitionId()}"
        _Sender(self._settings, self._doors, job, producer, 0).send_all(iterator)
        return WriterCommitMessage()


def _doors(settings: TopicWriteSettings) -> list[Door]:
    hubs = open_hubs(settings)
    try:
        return doors_of(hubs, settings)
    finally:
        hubs.close()


class _Sender:
    """Sends the rows of one task, in order."""

    def __init__(
        self, settings: TopicWriteSettings, doors: list[Door], query: str, producer: str, run: int
    ) -> None:
        self._settings = settings
        self._calls = HubCalls(lambda: doors, settings.timeout_s)
        self._query = query
        self._producer = producer.encode()
        self._run = b"%d" % run
        # Rows so far, by topic.
        self._numbers: Counter[bytes] = Counter()
        # Topics whose logs keep enough ids.
        self._prepared: set[bytes] = set()

    def send_all(self, batches: Iterator[pa.RecordBatch]) -> None:
        waiting: list[Words] = []
        size = 0
        try:
            for batch in batches:
                for topic, row_id, words in outgoing(batch, self._settings):
                    waiting.append([b"XADD", topic, *self._name(topic, row_id), b"*", *words])
                    size += sum(map(len, words))
                    if len(waiting) >= _ROWS_MAX or size >= _BYTES_MAX:
                        self._send(waiting)
                        waiting, size = [], 0
            self._send(waiting)
        finally:
            self._calls.close()

    def _name(self, topic: bytes, row_id: bytes) -> Words:
        """The words that identify the row in the log."""
        if row_id:
            self._prepare(topic)
            return [b"IDMP", f"{self._query}/{zlib.crc32(row_id) % _SHARDS}".encode(), row_id]
        number = self._numbers[topic]
        self._numbers[topic] += 1
        return [b"SEQUENCE", self._producer, self._run, b"%d" % number]

    def _prepare(self, topic: bytes) -> None:
        """Set the log's number of kept ids to its maximum. No effect if it is set."""
        if topic not in self._prepared:
            self._prepared.add(topic)
            duration, size = b"%d" % _IDS_DURATION_S, b"%d" % _IDS_MAX
            self._send([[b"XCFGSET", topic, b"IDMP-DURATION", duration, b"IDMP-MAXSIZE", size, b"MKSTREAM"]])

    def _send(self, requests: Sequence[Words]) -> None:
        """Send until each row is confirmed. Raises RefusedError, DisconnectedError."""
        deadline = time.monotonic() + self._settings.timeout_s
        waiting = list(requests)
        while waiting:
            try:
                replies = self._calls.call(waiting)
            except DisconnectedError:
                if time.monotonic() >= deadline:
                    raise
                time.sleep(_RETRY_S)
                continue
            waiting = _unconfirmed(waiting, replies, is_late=time.monotonic() >= deadline)
            if waiting:
                time.sleep(_RETRY_S)


def _unconfirmed(requests: Sequence[Words], replies: Sequence[object], *, is_late: bool) -> list[Words]:
    """The rows to send again. Raises the refusal of a row for which a retry is useless."""
    again: list[Words] = []
    for request, reply in zip(requests, replies, strict=True):
        if not isinstance(reply, RefusedError):
            continue
        # After a refused row, the next rows of the partition leave a gap.
        is_gap = bool(again) and reply.code == "OUTOFORDER"
        if is_late or not (is_gap or is_passing(reply)):
            raise reply
        again.append(request)
    return again
