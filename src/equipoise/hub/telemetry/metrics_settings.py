"""What an operator may set about a hub's metrics."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

__all__ = ["MetricsSettings"]


class MetricsSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the hub tells Prometheus. Off unless a port is given."""

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
