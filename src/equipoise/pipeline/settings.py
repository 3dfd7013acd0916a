"""How a pipeline is set: where it reads, how it judges, what it keeps, how Spark is started. Read once at start."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

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
            description="Heap of the JVM. Records pass through it packed, some 20 MB in a batch that catches up; the "
            "rest is Spark itself.",
        ),
    ] = 640
    shuffle_partitions: Annotated[
        int,
        Meta(
            ge=1,
            description="Tasks after a shuffle. Each costs some 10 ms; two suffice for 100,000 records a second.",
        ),
    ] = 2
    is_quick_to_start: Annotated[
        bool,
        Meta(
            description="Compile lightly: up 2 s sooner and fine to 100,000 records a second, but three times "
            "slower at a million."
        ),
    ] = True
    driver_host: Annotated[
        str, Meta(description="Where executors find the driver; an address of this machine in a cluster.")
    ] = "127.0.0.1"
    cache: Annotated[
        Path | None, Meta(description="Folder for what is made once; the user's cache folder without it.")
    ] = None


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
            description="For all that a hub contributes to a batch, when it has just said that it has it. Beyond it "
            "what is missing counts as lost, so a hub that is merely overloaded has to get through; one that has died "
            "since is given up after a second.",
        ),
    ] = 10.0


class Plausible(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a hub can do at most. Far above any real one: this is to find nonsense, not load."""

    messages_per_s_max: Annotated[
        float, Meta(gt=0, description="A hub delivers some 25 million a second at best, measured.")
    ] = 1e9
    bytes_per_s_max: Annotated[float, Meta(gt=0, description="Ten times the fastest network cards.")] = 1e12
    # Of a hub's own figures.
    cpu_ratio_max: Annotated[float, Meta(gt=0, description="A hub has one thread that matters.")] = 64.0
    memory_bytes_max: Annotated[int, Meta(gt=0, description="More than any machine has.")] = 1 << 44
    window_us_min: Annotated[int, Meta(gt=0, description="A tenth of the shortest window there is.")] = 10_000
    window_us_max: Annotated[
        int, Meta(gt=0, description="Twice the longest window: a hub that was paused makes long ones.")
    ] = 120_000_000
    future_s_max: Annotated[
        float, Meta(ge=0, description="How far clocks may be apart. NTP keeps them within a tenth of this.")
    ] = 2.0


class KeepingSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the lake is kept."""

    every_s: Annotated[
        float,
        Meta(gt=0, description="Between two rounds of the running pipeline: a hundred files have come."),
    ] = 60.0
    files_min: Annotated[
        int,
        Meta(
            ge=2,
            description="Small files in the present hour that are worth merging; of an hour that is over, two are.",
        ),
    ] = 64
    file_bytes_max: Annotated[
        int,
        Meta(ge=MIB, description="A file of this size is left alone: large enough to be read at full speed."),
    ] = 64 * MIB
    replaced_s: Annotated[
        float,
        Meta(
            ge=0,
            description="How long replaced files stay for those who are reading them. A summary takes less.",
        ),
    ] = 600.0
    retention_h: Annotated[
        int, Meta(ge=1, description="Hours that are kept: a week shows every daily and weekly habit.")
    ] = 168


class PipelineSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One pipeline. Of one region there is one at a time: two would send the same views twice."""

    source: SourceSettings
    directory: Annotated[Path, Meta(description="Checkpoint and lake.")]
    has_lake: Annotated[bool, Meta(description="Whether history is kept.")] = True
    trigger_s: Annotated[
        float,
        Meta(ge=0, description="Between two batches: as often as hubs record. 0: as soon as one is done."),
    ] = 1.0
    plausible: Plausible = Plausible()
    keeping: KeepingSettings = KeepingSettings()

    @property
    def checkpoint(self) -> Path:
        return self.directory / "checkpoint"

    @property
    def lake(self) -> Path:
        return self.directory / "lake"
