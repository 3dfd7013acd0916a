"""Settings of the locations of hubs and clients."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import msgspec
from msgspec import Meta

__all__ = ["CoordinatesSettings", "TcpRttFor"]


class TcpRttFor(StrEnum):
    """Topics for which round-trip times are read from the kernel, for clients without a coordinate."""

    NONE = "none"
    LIMITED = "limited"
    ALL = "all"


class CoordinatesSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Network coordinates of hubs and clients, for placing topics by latency."""

    seeds: Annotated[
        tuple[str, ...],
        Meta(
            description="Names of well-spread, long-running hubs; one of them is probed in every round. A "
            "common reference makes the coordinates of hundreds of hubs converge sooner."
        ),
    ] = ()
    probe_interval_s: Annotated[
        float,
        Meta(
            ge=0.05,
            description="Mean interval between two rounds of probes: the coordinates of ten hubs converge "
            "within half a minute, and a round takes less than a millisecond.",
        ),
    ] = 1.0
    probes_per_round: Annotated[
        int,
        Meta(
            ge=1,
            le=16,
            description="Hubs probed in a round: a seed if there is one, one of the nearest, and random ones.",
        ),
    ] = 3
    tcp_rtt_for: Annotated[
        TcpRttFor,
        Meta(
            description="For which topics the hub reads the round-trip time of clients without a coordinate, "
            "such as plain Redis clients, from the kernel (TCP_INFO, Linux only): `limited`, "
            "topics with a latency limit; `all`; `none`: limits then consider smart clients only. "
            "A location takes 200 bytes of a topic's record each second."
        ),
    ] = TcpRttFor.LIMITED
    distance_slack_s: Annotated[
        float,
        Meta(
            ge=0,
            description="How far a reported coordinate may exceed four times the round-trip time of the "
            "connection before it is rejected as implausible. The default spans the earth, "
            "because a load balancer or a gateway in front of the hub hides the client's own "
            "round-trip time. Lower it if clients connect directly: a false coordinate can make a "
            "topic look that much farther away. Without TCP_INFO the client's own measurement is "
            "used.",
        ),
    ] = 0.25
