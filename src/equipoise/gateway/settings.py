"""Settings of a gateway, each with unit and the reason for its default."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from equipoise.coordinates import FinderSettings

__all__ = ["GatewaySettings"]


class GatewaySettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One gateway."""

    host: Annotated[
        str,
        Meta(
            description="Address to listen on. A client that connects learns the gateway's coordinate, "
            "nothing else."
        ),
    ] = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=65_535, description="Port to listen on; 0 takes a free one.")] = 6_390
    connections_max: Annotated[
        int,
        Meta(
            ge=1,
            description="Client connections; excess connections get an error and are closed. Some 3 kB each.",
        ),
    ] = 10_000
    idle_timeout_s: Annotated[
        float,
        Meta(
            gt=0,
            description="A client that sends nothing for this long is disconnected; clients ask every 5 s.",
        ),
    ] = 60.0
    hubs_max: Annotated[
        int,
        Meta(
            ge=1,
            description="Hubs of the URL that are measured, the first ones. Three determine a coordinate; "
            "more make it more precise, at one connection each.",
        ),
    ] = 8
    report_interval_s: Annotated[
        float,
        Meta(
            gt=0,
            description="Interval between two reports to one hub, each a probe as well. Until the coordinate "
            "has converged, the gateway sends four probes a second.",
        ),
    ] = FinderSettings().report_s
