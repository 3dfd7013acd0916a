"""Telemetry as a stream of Spark: one partition per hub, offsets per hub, replayable.

Spark requests the hubs' heads, stores them, and lets workers read the records between two such states. A range that is
requested again after a crash has the same records, while the hub lives and has not dropped them.

A row is a piece of some thousand records, packed as sent by the hub; `source.unpack` unpacks it. Missing records are a
row, too, so that each is counted once.

Always true: a record is returned once per range that contains it; a hub that does not reply costs only its own records
and a bounded time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import pyarrow as pa  # type: ignore[import-untyped]  # It ships no types.
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows
from pyspark.sql.types import StructType

from equipoise.pipeline.settings import SourceSettings
from equipoise.pipeline.source import offsets
from equipoise.pipeline.source.fetch import Heads, fetched
from equipoise.pipeline.source.hub_connection import Door
from equipoise.pipeline.source.hub_directory import HubEntry, open_directory
from equipoise.pipeline.source.offsets import Range
from equipoise.pipeline.source.piece_rows import PIECES_SCHEMA

__all__ = ["FORMAT", "TelemetrySource", "telemetry_pieces"]

FORMAT = "equipoise-telemetry"
# For the store's first reply after a restart: without it, the records to read are lost.
_FIRST_WORD_S = 20.0


def telemetry_pieces(session: SparkSession, settings: SourceSettings) -> DataFrame:
    """The records of all hubs as a stream of pieces: columns as in `PIECES_SCHEMA`, one partition per hub."""
    session.dataSource.register(TelemetrySource)
    options = {name: str(value) for name, value in msgspec.to_builtins(settings).items()}
    return session.readStream.format(FORMAT).options(**options).load()


class TelemetrySource(DataSource):
    """`spark.readStream.format("equipoise-telemetry")` with the options of `SourceSettings`."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> StructType:
        return from_arrow_schema(PIECES_SCHEMA)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        # Options come as text, with names in lower case.
        return TelemetryReader(msgspec.convert(dict(self.options), SourceSettings, strict=False))


class HubPartition(InputPartition):
    """The range of one task."""

    def __init__(self, span: Range, door: Door | None) -> None:
        super().__init__(None)
        self.span = span
        # None: the hub's address is not known any more.
        self.door = door


class TelemetryReader(DataSourceStreamReader):
    """Lives as long as the query, on the driver; `read` runs on copies of it, on executors."""

    def __init__(self, settings: SourceSettings) -> None:
        self._settings = settings
        self._directory = open_directory(settings.hubs, settings.region)
        self._heads = Heads(timeout_s=settings.timeout_s)
        # The last known addresses of hubs, for ranges of a repeated batch.
        self._seen: dict[str, HubEntry] = {}

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        return {}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        return ReadMaxRows(self._settings.rows_max)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802 - Spark's name
        known = self._directory.hubs(self._settings.timeout_s)
        if known is None:
            return start
        self._seen.update(known)
        timeout_s = self._settings.timeout_s
        doors = {name: door_of(hub, self._settings, timeout_s) for name, hub in known.items() if hub.is_alive}
        end = offsets.advanced(
            offsets.decode(start),
            self._heads.ask(doors),
            known=known,
            rows_max=None if isinstance(limit, ReadAllAvailable) else self._rows(limit),
        )
        return offsets.encode(end)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        # After a restart this comes before the first latestOffset.
        self._seen.update(self._directory.hubs(_FIRST_WORD_S) or {})
        return [
            HubPartition(span, self._door(span.hub))
            for span in offsets.ranges(offsets.decode(start), offsets.decode(end))
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, HubPartition)
        return fetched(
            partition.span,
            partition.door,
            piece_bytes_max=self._settings.piece_bytes_max,
            timeout_s=self._settings.read_timeout_s,
        )

    def stop(self) -> None:
        self._heads.close()
        self._directory.close()

    def __getstate__(self) -> dict[str, Any]:
        """For executors, which only read."""
        return {"settings": self._settings}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._settings = state["settings"]

    def _door(self, hub: str) -> Door | None:
        entry = self._seen.get(hub)
        return None if entry is None else door_of(entry, self._settings, self._settings.read_timeout_s / 2)

    def _rows(self, limit: ReadLimit) -> int:
        return limit.max_rows if isinstance(limit, ReadMaxRows) else self._settings.rows_max


def door_of(hub: HubEntry, settings: SourceSettings, timeout_s: float) -> Door:
    return Door(hub.host, hub.port, settings.user, settings.secret, settings.tls_ca, timeout_s)
