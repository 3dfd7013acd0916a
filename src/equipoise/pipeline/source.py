"""Telemetry as a stream of Spark: one partition per hub, offsets per hub, replayable.

Spark asks how far the hubs reach, writes that down, and has workers read what lies between the last two such
states. Whatever it asks for again after a crash it gets again, as long as the hub lives and has not forgotten it.

A row is a piece of some thousand records, packed as the hub sent them; `transforms.records_of` unpacks. What could not
be had is a row too, so that it is counted like everything else, once.

Always true: a record is given once per range that contains it; a hub that does not answer costs its own records and
a bounded time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Any

import msgspec
import pyarrow as pa  # type: ignore[import-untyped]  # It ships no types.
from msgspec import Meta
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows
from pyspark.sql.types import StructType

from equipoise.pipeline import offsets
from equipoise.pipeline.directory import HubEntry, open_directory
from equipoise.pipeline.fetching import fetched
from equipoise.pipeline.heads import Heads
from equipoise.pipeline.offsets import Range
from equipoise.pipeline.reading import Door
from equipoise.pipeline.rows import PIECES_DDL

__all__ = ["FORMAT", "SourceSettings", "TelemetrySource"]

FORMAT = "equipoise"
# For the store's first word after a restart: without it, what was to be read then is lost.
_FIRST_WORD_S = 20.0


class SourceSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of the source, by these names."""

    hubs: Annotated[str, Meta(description="A store's address, or hubs as name=host:port,name=host:port.")]
    region: Annotated[str, Meta(description="The region in the store.")] = "default"
    user: Annotated[
        str, Meta(description="Who asks; needs the right `operate`. Empty: nobody has to say.")
    ] = ""
    secret: Annotated[str, Meta(description="That user's secret.")] = ""
    tls_ca: Annotated[str, Meta(description="Authority of the hubs' certificates (PEM). Empty: no TLS.")] = ""
    rows_max: Annotated[
        int,
        Meta(
            ge=1,
            description="Records in one batch: four seconds of 50,000 a second, so that a pipeline that was away "
            "catches up in steps that each take about a second.",
        ),
    ] = 200_000
    piece_bytes_max: Annotated[
        int, Meta(ge=65_536, description="Asked for at once; a hub gives at most 2 MiB of it.")
    ] = 2 * 1024 * 1024
    timeout_s: Annotated[
        float,
        Meta(
            gt=0, description="For one answer. Beyond it the hub is passed over, and what it has comes later."
        ),
    ] = 0.5
    read_timeout_s: Annotated[
        float,
        Meta(
            gt=0,
            description="For all that a hub contributes to a batch, when it has just answered. Beyond it what is "
            "missing counts as lost.",
        ),
    ] = 2.0

    def door(self, hub: HubEntry, timeout_s: float) -> Door:
        return Door(hub.host, hub.port, self.user, self.secret, self.tls_ca, timeout_s)


class TelemetrySource(DataSource):
    """`spark.readStream.format("equipoise")` with the options of `SourceSettings`."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> str:
        return PIECES_DDL

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        # Options come as text, with names in lower case.
        return TelemetryReader(msgspec.convert(dict(self.options), SourceSettings, strict=False))


class HubPartition(InputPartition):
    """What one task reads."""

    def __init__(self, span: Range, door: Door | None) -> None:
        super().__init__(None)
        self.span = span
        # None: where the hub is is not known any more.
        self.door = door


class TelemetryReader(DataSourceStreamReader):
    """Lives as long as the query, on the driver; `read` runs on copies of it, on executors."""

    def __init__(self, settings: SourceSettings) -> None:
        self._settings = settings
        self._directory = open_directory(settings.hubs, settings.region)
        self._heads = Heads(timeout_s=settings.timeout_s)
        # Where hubs were when they were seen last, for ranges of a batch that is run again.
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
        doors = {name: self._settings.door(hub, timeout_s) for name, hub in known.items() if hub.is_alive}
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
        return None if entry is None else self._settings.door(entry, self._settings.read_timeout_s / 2)

    def _rows(self, limit: ReadLimit) -> int:
        return limit.max_rows if isinstance(limit, ReadMaxRows) else self._settings.rows_max
