"""What an operator may set about where hubs and clients are."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import msgspec
from msgspec import Meta

__all__ = ["AsksKernel", "CoordinatesSettings"]


class AsksKernel(StrEnum):
    """Of which topics the kernel is asked where clients are that do not say."""

    NEVER = "never"
    LIMITED = "limited"
    ALWAYS = "always"


class CoordinatesSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where hubs and clients are in the network, for placing topics by latency."""

    seeds: Annotated[
        tuple[str, ...],
        Meta(
            description="Names of hubs that are steady and spread well, of which one is probed in every round: "
            "what all hubs measure in common brings them together sooner where there are hundreds."
        ),
    ] = ()
    probe_s: Annotated[
        float,
        Meta(
            ge=0.05,
            description="Between two rounds of probes, on average: ten hubs find their places within half a minute "
            "so, and a round costs a hub less than a millisecond.",
        ),
    ] = 1.0
    probes_per_round: Annotated[
        int,
        Meta(
            ge=1,
            le=16,
            description="Other hubs probed in a round: a seed if there is one, one of the nearest, and others "
            "that are drawn.",
        ),
    ] = 3
    asks_kernel: Annotated[
        AsksKernel,
        Meta(
            description="Of which topics the kernel is asked (TCP_INFO, on Linux) how far clients are that do not say "
            "where they are, as plain Redis clients do not: `limited`, those with a latency limit; `always`; `never`: "
            "then limits see smart clients only. A place takes 200 bytes of a topic's record each second, and its "
            "share of the pipeline's time, so nobody has it who has no use for it."
        ),
    ] = AsksKernel.LIMITED
    doubt_s: Annotated[
        float,
        Meta(
            ge=0,
            description="How far beyond four times the round trip that the kernel finds a client is believed to be. As "
            "far as the other end of the earth, since the kernel finds whatever ends connections in front of a hub, a "
            "load balancer or the relay of a gateway, and not the client behind it. Less, where clients connect "
            "straight: by so much one that lies can have a topic look far. Without the kernel's word (`never`, or no "
            "Linux) the client's own measurement stands for it.",
        ),
    ] = 0.25
