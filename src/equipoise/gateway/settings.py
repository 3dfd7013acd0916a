"""What an operator may set about a gateway: each value with its unit and the reason for its default."""

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
        Meta(description="Address to listen on. Whoever can connect learns where the gateway is, no more."),
    ] = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=65_535, description="Port to listen on; 0 takes a free one.")] = 6_390
    connections_max: Annotated[
        int,
        Meta(ge=1, description="Clients at once; one in excess is told so and closed. Some 3 kB each."),
    ] = 10_000
    idle_s: Annotated[
        float,
        Meta(gt=0, description="A client that asks nothing for so long is closed; they ask every 5 s."),
    ] = 60.0
    hubs_max: Annotated[
        int,
        Meta(
            ge=1,
            description="Hubs of the URL that are measured, the first ones. Three give a place its direction; more "
            "make it surer, and each is one connection there.",
        ),
    ] = 8
    report_interval_s: Annotated[
        float,
        Meta(
            gt=0,
            description="Between two reports to one hub, each a probe as well: as often as clients do. Until the place "
            "is found there are four probes a second, to one hub after the other.",
        ),
    ] = FinderSettings().report_s
