"""How the pages are served. Read once at start."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

__all__ = ["WebSettings"]


class WebSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    host: Annotated[str, Meta(description="Address to listen on.")] = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=65535, description="0 takes a free one.")] = 6398
    token: Annotated[
        str,
        Meta(
            description="Whoever shows it may see and do everything. Empty: nobody may change anything, and only "
            "loopback may look."
        ),
    ] = ""
    loopback_is_free: Annotated[
        bool,
        Meta(
            description="Whoever is on this machine may look without the token, and act with it. Not behind a proxy, "
            "which makes everybody look as if they were."
        ),
    ] = False
    refresh_s: Annotated[
        float, Meta(gt=0, description="Between two pushes to an open page: views come each second.")
    ] = 1.0
    series_s: Annotated[float, Meta(gt=0, description="How long charts look back.")] = 900.0
    metrics_topics_max: Annotated[
        int, Meta(ge=0, description="The busiest topics that have metrics of their own: labels cost memory.")
    ] = 50
