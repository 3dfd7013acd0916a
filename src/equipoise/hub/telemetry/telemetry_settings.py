"""What an operator may set about a hub's telemetry."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

__all__ = ["TelemetrySettings"]

MIB = 1024 * 1024


class TelemetrySettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the hub records of its load, for whoever asks."""

    is_recorded: Annotated[
        bool, Meta(description="Whether it records at all. Without it nobody can balance this hub's load.")
    ] = True
    window_s: Annotated[
        float,
        Meta(
            ge=0.1,
            le=60,
            description="What one record sums up, the paper's time unit: short enough to see a burst, long enough "
            "that recording 10,000 topics takes a hundredth of it.",
        ),
    ] = 1.0
    keep_s: Annotated[
        float,
        Meta(
            gt=0,
            le=3_600,
            description="How long records are kept for readers: a pipeline that restarts is back in half a minute.",
        ),
    ] = 120.0
    ring_bytes_max: Annotated[
        int,
        Meta(
            ge=MIB,
            description="What all kept records may take; the oldest go first. Two minutes of 10,000 active topics "
            "take some 45 MiB; of topics whose clients say where they are, half a minute.",
        ),
    ] = 64 * MIB
    out_bytes_per_s_max: Annotated[
        Annotated[float, Meta(gt=0)] | None,
        Meta(
            description="The most this hub can send, in bytes per second: what its network allows. Recorded, so "
            "that load can be told as a share of it."
        ),
    ] = None
    deliveries_per_s_max: Annotated[
        Annotated[float, Meta(gt=0)] | None,
        Meta(
            description="The most this hub can deliver, in messages per second, before they are late: what "
            "`equipoise profile hub` has found on such a machine. Recorded likewise."
        ),
    ] = None
    arrivals_topics_max: Annotated[
        int, Meta(ge=0, description="Topics whose arrivals may be recorded one by one at the same time.")
    ] = 16
    arrivals_per_s_max: Annotated[
        int,
        Meta(
            ge=1,
            description="Arrivals recorded per second, all topics together; more are counted and left out. "
            "Each takes some 30 bytes, so at this rate they take a third of what records may take in two minutes.",
        ),
    ] = 5_000
    arrivals_s: Annotated[
        float,
        Meta(
            gt=0,
            description="How long arrivals of a topic are recorded unless asked for again: a profile takes "
            "minutes, and whoever asked may be gone.",
        ),
    ] = 600.0
