"""Settings of the pipeline: sources, validation, history, Spark. Read once at start."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from equipoise.pipeline.sums_choice import SumsAt

__all__ = ["KeepingSettings", "PipelineSettings", "Plausible", "SessionSettings", "SourceSettings"]

MIB = 1024 * 1024


class SessionSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How Spark is started."""

    master: Annotated[
        str,
        Meta(description="`local[*]` for all cores of this machine, or spark://host:port of a cluster."),
    ] = "local[*]"
    driver_memory_mib: Annotated[
        int,
        Meta(
            ge=256,
            description="Heap of the JVM. Records pass through it packed, some 20 MB in a batch that catches "
            "up; the rest is Spark itself.",
        ),
    ] = 640
    shuffle_partitions: Annotated[
        int,
        Meta(
            ge=1,
            description="Tasks after a shuffle. Each costs some 10 ms; two suffice for 100,000 records a second.",
        ),
    ] = 2
    fast_start: Annotated[
        bool,
        Meta(
            description="Compile lightly: starts 2 s sooner and suffices up to 100,000 records a second, but "
            "is three times slower at a million."
        ),
    ] = True
    driver_host: Annotated[str, Meta(description="Address at which executors reach the driver.")] = (
        "127.0.0.1"
    )
    cache: Annotated[
        Path | None, Meta(description="Folder for files that are built once. Empty: the user's cache folder.")
    ] = None


class SourceSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of the source, by these names."""

    hubs: Annotated[str, Meta(description="URL of the store, or hubs as name=host:port,name=host:port.")]
    region: Annotated[str, Meta(description="Name of the cluster inside the store.")] = "default"
    user: Annotated[str, Meta(description="User to log in as; needs `observe`. Empty: no login.")] = ""
    secret: Annotated[str, Meta(description="Secret of that user.")] = ""
    tls_ca: Annotated[str, Meta(description="CA of the hubs' certificates (PEM). Empty: no TLS.")] = ""
    rows_max: Annotated[
        int,
        Meta(
            ge=1,
            description="Records per batch: four seconds of 50,000 a second, so that a pipeline that was down "
            "catches up in batches of about a second.",
        ),
    ] = 200_000
    piece_bytes_max: Annotated[
        int, Meta(ge=65_536, description="Bytes per request; a hub answers with at most 2 MiB.")
    ] = 2 * 1024 * 1024
    timeout_s: Annotated[
        float,
        Meta(
            gt=0,
            description="Time-out of one request. A hub that exceeds it is skipped in this batch; its records "
            "are read later.",
        ),
    ] = 0.5
    read_timeout_s: Annotated[
        float,
        Meta(
            gt=0,
            description="Time-out of all requests to one hub in a batch, after the hub has announced the "
            "records. Records missing then count as lost, so an overloaded hub has to get "
            "through; a hub that died meanwhile is given up after a second.",
        ),
    ] = 10.0


class Plausible(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Upper bounds of a hub. Far above any real one: they detect invalid records, not load."""

    messages_per_s_max: Annotated[
        float, Meta(gt=0, description="A hub delivers some 25 million a second at best, measured.")
    ] = 1e9
    bytes_per_s_max: Annotated[float, Meta(gt=0, description="Ten times the fastest network cards.")] = 1e12
    # Of a hub's own measurements.
    cpu_ratio_max: Annotated[
        float, Meta(gt=0, description="A hub has one busy thread; 64 leaves room for any measurement error.")
    ] = 64.0
    memory_bytes_max: Annotated[int, Meta(gt=0, description="More memory than any machine has.")] = 1 << 44
    window_us_min: Annotated[int, Meta(gt=0, description="A tenth of the shortest window there is.")] = 10_000
    window_us_max: Annotated[
        int, Meta(gt=0, description="Twice the longest window: a hub that was paused makes long ones.")
    ] = 120_000_000
    future_s_max: Annotated[
        float,
        Meta(
            ge=0, description="Clock difference that is tolerated. NTP keeps clocks within a tenth of this."
        ),
    ] = 2.0


class KeepingSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Files of the lake."""

    compaction_interval_s: Annotated[
        float,
        Meta(
            gt=0,
            description="Interval between two compactions by the running pipeline: about a hundred new files.",
        ),
    ] = 60.0
    files_min: Annotated[
        int,
        Meta(
            ge=2,
            description="Small files of the current hour that trigger a compaction; two suffice in a past "
            "hour.",
        ),
    ] = 64
    file_bytes_max: Annotated[
        int,
        Meta(
            ge=MIB,
            description="A file of this size is not compacted again: large enough to be read at full speed.",
        ),
    ] = 64 * MIB
    replaced_retention_s: Annotated[
        float,
        Meta(
            ge=0,
            description="How long files replaced by compaction are kept for running readers.",
        ),
    ] = 600.0
    retention_h: Annotated[
        int, Meta(ge=1, description="Hours of history to keep: a week covers daily and weekly patterns.")
    ] = 168


class PipelineSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One pipeline. A region has one at a time: two would send the same views twice."""

    source: SourceSettings
    directory: Annotated[Path, Meta(description="Folder of checkpoint and lake.")]
    lake_enabled: Annotated[bool, Meta(description="Whether history is kept in the lake.")] = True
    trigger_interval_s: Annotated[
        float,
        Meta(
            ge=0,
            description="Interval between two batches, equal to the telemetry window of hubs. 0: the next "
            "batch starts at once.",
        ),
    ] = 1.0
    sums: Annotated[
        SumsAt,
        Meta(
            description="Where windows are kept and summed: `driver`, in one thread; `executors`, by hub, in parallel; "
            "`auto`: the driver up to `executors_records_per_s`, executors beyond."
        ),
    ] = SumsAt.AUTO
    executors_records_per_s: Annotated[
        float,
        Meta(
            gt=0,
            description="Records a second beyond which executors sum: between 50,000 and 200,000, where sums fill "
            "the driver thread.",
        ),
    ] = 100_000.0
    view_topics_max: Annotated[
        int,
        Meta(
            ge=100,
            description="Topics that a view names, shared by its hubs in equal parts, the heaviest of each first. "
            "Topics with a limit, a site, an entry in the plan or a move in flight have their names in any case; all "
            "others of a hub are one remainder, which the planner counts.",
        ),
    ] = 200_000
    plausible: Plausible = Plausible()
    keeping: KeepingSettings = KeepingSettings()

    @property
    def checkpoint(self) -> Path:
        return self.directory / "checkpoint"

    @property
    def lake(self) -> Path:
        return self.directory / "lake"

    @property
    def state(self) -> Path:
        """Windows that executors keep."""
        return self.directory / "state"
