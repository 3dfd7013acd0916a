"""Settings of links between hubs, moves and redirects, with their reasons."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

__all__ = ["ClusterSettings"]

KIB = 1024
MIB = 1024 * KIB


class ClusterSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """This hub among others. Hubs of one system should have the same `limits`: the log names those that differ."""

    link_bytes_max: Annotated[
        int,
        Meta(
            ge=64 * KIB,
            description="Unacknowledged bytes buffered per link to another hub: seconds of a full network "
            "while that hub pauses or is unreachable. Above half of it, messages of publishers wait in "
            "`pending_bytes_max`; above all of it, the buffer is dropped and both hubs resynchronise.",
        ),
    ] = 64 * MIB
    link_tls_ca: Annotated[
        str,
        Meta(
            description="CA of the other hubs' certificates, PEM. Links to other hubs then use TLS, with this hub's "
            "own certificate if it has one; a hub without TLS cannot be reached. None: links without TLS."
        ),
    ] = ""
    pending_bytes_max: Annotated[
        int,
        Meta(
            ge=64 * KIB,
            description="Messages buffered while topics move: those on the way to a home, and, counted apart, "
            "those that wait for an earlier part of their stream. A move takes two round trips. "
            "Above it, publishers get TRYAGAIN.",
        ),
    ] = 32 * MIB
    moves_max: Annotated[
        int,
        Meta(
            ge=1,
            description="Moves of topics away from this hub at the same time; further topics stay here until "
            "their turn.",
        ),
    ] = 16
    handover_retry_s: Annotated[
        float,
        Meta(
            gt=0,
            description="If the new home is alive and has not answered the offer of a topic for this long, "
            "the offer is sent again; the topic stays here meanwhile.",
        ),
    ] = 10.0
    unsubscribe_delay_s: Annotated[
        float,
        Meta(
            gt=0,
            description="Delay before this hub unsubscribes from a stream or pattern that none of its clients "
            "uses; a client that reconnects sooner finds the stream still here.",
        ),
    ] = 10.0
    ack_interval_s: Annotated[
        float,
        Meta(
            gt=0,
            description="Longest delay before this hub acknowledges frames of another hub, which buffers them "
            "until then.",
        ),
    ] = 0.1
    link_silence_s: Annotated[
        float,
        Meta(
            gt=0,
            description="A hub that has acknowledged nothing for this long receives no more messages until it does: "
            "they wait here, and are sent to the next home if that hub is dead. Well above `ack_interval_s` "
            "and the round trip between hubs.",
        ),
    ] = 1.0
    link_timeout_s: Annotated[
        float,
        Meta(
            gt=0,
            description="A connection between hubs with unacknowledged frames is closed and reopened after "
            "this much silence; below the session time-out of the store, so that a broken "
            "connection does not count as a dead hub.",
        ),
    ] = 3.0
    reconnect_interval_s_max: Annotated[
        float, Meta(gt=0, description="Longest delay between two attempts to connect to another hub.")
    ] = 1.0
    unreachable_s: Annotated[
        float,
        Meta(
            gt=0,
            description="If this hub and another one have not reached each other for this long, though both reach the "
            "store, one of them leaves the cluster until it can: the one that fewer hubs reach. Plan changes wait for "
            "both until then. Above the session time-out of the store.",
        ),
    ] = 15.0
    filtered_links: Annotated[
        bool,
        Meta(
            description="Whether hubs request from each other only those messages of a topic that the filters of their "
            "subscribers match. If not, hubs send each other whole topics and filter for clients only."
        ),
    ] = True
    disconnect_on_loss: Annotated[
        bool,
        Meta(
            description="Whether plain Redis subscribers are disconnected when messages to them are lost. They "
            "cannot detect a loss otherwise; smart clients receive a gap. Losses are counted either way."
        ),
    ] = False
    redirect_mode: Annotated[
        Literal["eager", "lazy"],
        Meta(
            description="When smart subscribers are redirected after a move: `eager`, at once; `lazy`, with "
            "the next message of the topic, so that unused topics cause no redirects."
        ),
    ] = "eager"
    redirects_per_s: Annotated[
        int,
        Meta(
            ge=1,
            description="Redirects sent per second: each makes a client subscribe at the new home, which "
            "takes some 50 us there. The rate begins at 50 and doubles every quarter of a second up to this. A "
            "quarter of it while the event loop of this hub is late by 5 ms or more.",
        ),
    ] = 1_000
