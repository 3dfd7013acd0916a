"""What can be set of a bookie."""

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
            description="Size of a segment file. Larger ones are rolled less often; a start reads the open one whole.",
        ),
    ] = 64 * 1024 * 1024
    segment_entries_max: Annotated[
        int, Meta(ge=100, description="A segment with this many entries is rolled: its index is in memory.")
    ] = 100_000
    group_bytes_max: Annotated[
        int, Meta(ge=4096, description="At most this much is written with one sync, a larger entry alone.")
    ] = 4 * 1024 * 1024
    loop_sync_s: Annotated[
        float,
        Meta(
            ge=0,
            description="While a sync takes less than this the loop syncs itself; above it, and with 0, a thread does.",
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
        float, Meta(gt=0, le=1, description="Share of the disk in use from which on the bookie is read-only.")
    ] = 0.95
    writable_used: Annotated[
        float, Meta(gt=0, le=1, description="Share of the disk in use below which it takes entries again.")
    ] = 0.90
    room_interval_s: Annotated[
        float, Meta(gt=0, description="How often the room on the disk is looked at.")
    ] = 1.0
    report_interval_s: Annotated[
        float, Meta(gt=0, description="How often the bookie tells the store its room and sync time.")
    ] = 30.0
    collection_interval_s: Annotated[
        float,
        Meta(
            gt=0, description="How often ledgers that were deleted are looked for, and their room given back."
        ),
    ] = 60.0
    compaction_live_max: Annotated[
        float,
        Meta(ge=0, le=1, description="A sealed segment with a smaller share of live bytes is rewritten."),
    ] = 0.5
    compaction_bytes_per_s: Annotated[
        int, Meta(ge=1024, description="How fast live entries are copied out of old segments.")
    ] = 8 * 1024 * 1024
