"""Settings of the dashboard's server. Read once at start."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

__all__ = ["WebSettings"]


class WebSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    host: Annotated[str, Meta(description="Address to listen on.")] = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=65535, description="Port; 0 takes a free one.")] = 6398
    token: Annotated[
        str,
        Meta(
            description="Bearer token that allows reading and changing everything. Empty: no changes, and "
            "only loopback may read."
        ),
    ] = ""
    tls_certificate: Annotated[
        str,
        Meta(description="Certificate chain, PEM: pages are served over HTTPS alone. Empty: over HTTP."),
    ] = ""
    tls_key: Annotated[str, Meta(description="Private key of the certificate, PEM.")] = ""
    loopback_reads_allowed: Annotated[
        bool,
        Meta(
            description="Clients on this machine may read without the token; changes need it. Do not use it "
            "behind a proxy on the same machine: all its clients would appear to be local."
        ),
    ] = False
    refresh_interval_s: Annotated[
        float,
        Meta(
            gt=0, description="Interval between two updates pushed to an open page: views arrive each second."
        ),
    ] = 1.0
    chart_history_s: Annotated[float, Meta(gt=0, description="Time span of the charts.")] = 900.0
    metrics_topics_max: Annotated[
        int,
        Meta(ge=0, description="Busiest topics with metrics of their own: labels cost memory in Prometheus."),
    ] = 50
