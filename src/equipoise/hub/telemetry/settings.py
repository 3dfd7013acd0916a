"""Settings of a hub's telemetry and metrics."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

__all__ = ["MetricsSettings", "TelemetrySettings"]

MIB = 1024 * 1024


class TelemetrySettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The hub's telemetry: records of its load."""

    enabled: Annotated[
        bool,
        Meta(
            description="Whether telemetry is recorded. Without it the load of this hub cannot be balanced."
        ),
    ] = True
    window_s: Annotated[
        float,
        Meta(
            ge=0.1,
            le=60,
            description="Length of the window that one record covers, the paper's time unit: short enough to "
            "show a burst, long enough that recording 10,000 topics takes a hundredth of it.",
        ),
    ] = 1.0
    retention_s: Annotated[
        float,
        Meta(
            gt=0,
            le=3_600,
            description="How long records are kept for readers: a pipeline restarts within half a minute.",
        ),
    ] = 120.0
    ring_bytes_max: Annotated[
        int,
        Meta(
            ge=MIB,
            description="Size of the telemetry ring; the oldest records go first. Two minutes of 10,000 "
            "active topics take some 45 MiB; with client coordinates, half a minute.",
        ),
    ] = 64 * MIB
    out_bytes_per_s_max: Annotated[
        Annotated[float, Meta(gt=0)] | None,
        Meta(
            description="Network capacity of this hub in bytes per second, from which its load ratio is "
            "computed. None: the speed of the interface of the default route; without one, bandwidth is ignored."
        ),
    ] = None
    deliveries_per_s_max: Annotated[
        Annotated[float, Meta(gt=0)] | None,
        Meta(
            description="Delivery capacity of this hub in messages per second, as measured by `equipoise "
            "profile hub`. None: unknown."
        ),
    ] = None
    memory_bytes_max: Annotated[
        Annotated[int, Meta(gt=0)] | None,
        Meta(
            description="Memory that this hub may take, in bytes. None: its current memory plus the free memory of its "
            "control group or the machine."
        ),
    ] = None
    arrivals_topics_max: Annotated[
        int, Meta(ge=0, description="Topics whose arrivals may be recorded one by one at the same time.")
    ] = 16
    arrivals_per_s_max: Annotated[
        int,
        Meta(
            ge=1,
            description="Arrivals recorded per second, all topics together; more are counted and dropped. "
            "Some 30 bytes each, so at this rate a third of the ring in two minutes.",
        ),
    ] = 5_000
    arrivals_duration_s: Annotated[
        float,
        Meta(
            gt=0,
            description="How long arrivals of a topic are recorded after a request: a profile takes minutes.",
        ),
    ] = 600.0


class MetricsSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The hub's Prometheus metrics. Off unless a port is given."""

    port: Annotated[
        Annotated[int, Meta(ge=0, le=65_535)] | None,
        Meta(description="Port of `/metrics`; 0 takes a free one. None: no metrics."),
    ] = None
    host: Annotated[
        str,
        Meta(
            description="Address to listen on. Metrics contain topic names: any address but loopback needs "
            "`token_file` or the hub's `insecure`."
        ),
    ] = "127.0.0.1"
    token_file: Annotated[
        str,
        Meta(description="File with the bearer token that Prometheus sends (`authorization: credentials`)."),
    ] = ""
    topics_max: Annotated[
        int,
        Meta(
            ge=0,
            le=1_000,
            description="Busiest topics with metrics of their own: seven time series each.",
        ),
    ] = 50
