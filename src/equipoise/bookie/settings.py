"""Settings of a bookie."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

__all__ = ["BookieSettings"]


class BookieSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a bookie uses its disk and its memory."""

    segment_bytes: Annotated[
        int,
        Meta(
            ge=64 * 1024,
            le=1 << 30,
            description="Size of a segment file. Larger ones roll less often; a start reads the open one.",
        ),
    ] = 64 * 1024 * 1024
    segment_entries_max: Annotated[
        int, Meta(ge=100, description="A segment with this many entries is rolled: its index is in memory.")
    ] = 100_000
    group_bytes_max: Annotated[
        int, Meta(ge=4096, description="Maximum bytes per sync; a larger entry is written alone.")
    ] = 4 * 1024 * 1024
    loop_sync_s: Annotated[
        float,
        Meta(
            ge=0,
            description="Syncs faster than this run in the event loop; slower ones, and with 0 all, in a thread.",
        ),
    ] = 0.0
    queue_bytes_max: Annotated[
        int,
        Meta(
            ge=4096,
            description="Adds that wait for the disk. Beyond it clients receive an error: the bookie is busy.",
        ),
    ] = 32 * 1024 * 1024
    read_only_used: Annotated[
        float, Meta(gt=0, le=1, description="Share of the disk in use from which the bookie is read-only.")
    ] = 0.95
    writable_used: Annotated[
        float, Meta(gt=0, le=1, description="Share of the disk in use below which it accepts entries again.")
    ] = 0.90
    room_interval_s: Annotated[
        float, Meta(gt=0, description="Interval between checks of the free disk space.")
    ] = 1.0
    report_interval_s: Annotated[
        float, Meta(gt=0, description="Interval between reports of free space and sync time to the store.")
    ] = 30.0
    collection_interval_s: Annotated[
        float,
        Meta(gt=0, description="Interval between collections, which free the space of deleted ledgers."),
    ] = 60.0
    compaction_live_max: Annotated[
        float,
        Meta(ge=0, le=1, description="A sealed segment with a smaller share of live bytes is rewritten."),
    ] = 0.5
    compaction_bytes_per_s: Annotated[
        int, Meta(ge=1024, description="Rate at which live entries are copied from old segments.")
    ] = 8 * 1024 * 1024
