"""Messages between hubs that balance: PIE, sessions, clusters. One JSON object each.

Always true: what cannot be read, or has a number that is none, is no message: `decode` returns None.
Always true: invalid bytes, or a number that is not finite, give no message: `decode` returns None.
"""

from __future__ import annotations

import math
from enum import StrEnum
from typing import Annotated

import msgspec
from msgspec import Meta

from equipoise.content.balancing.load import EdgeLoad
from equipoise.content.balancing.pair_estimate import BalancedMetric
from equipoise.content.balancing.publishers import HeadUse

__all__ = [
    "ClusterJoined",
    "ClusterParted",
    "ControlMessage",
    "HubStatus",
    "LoadWanted",
    "Pie",
    "SessionDone",
    "SessionEnd",
    "SessionEstimate",
    "SessionReply",
    "SessionRequest",
    "decode",
    "encode",
]

_Name = Annotated[str, Meta(max_length=64)]
# Covers in one reply: the maximum that a hub requests from another, each at most as long as a filter may be.
_Filters = Annotated[tuple[Annotated[str, Meta(max_length=65_536)], ...], Meta(max_length=16_384)]


class HubStatus(StrEnum):
    """The state of a hub, or a cluster, for others."""

    OK = "ok"
    BUSY = "busy"
    UNAVAILABLE = "n/a"
    STABILIZING = "stabilizing"


class Pie(msgspec.Struct, frozen=True, kw_only=True, tag="pie"):
    """Padres Information Exchange: an edge to the edges of its cluster, or a head to its neighbours (`is_global`)."""

    hub: _Name
    cluster: _Name
    status: HubStatus
    load: EdgeLoad
    # The edges with which it is balanced.
    balanced: Annotated[tuple[_Name, ...], Meta(max_length=1_000)] = ()
    # Increases: an older PIE does not replace a newer one.
    number: Annotated[int, Meta(ge=0)] = 0
    is_global: bool = False
    # Of a head that measures itself.
    head: HeadUse | None = None


class LoadWanted(msgspec.Struct, frozen=True, kw_only=True, tag="load-wanted"):
    """A hub that is not an edge of a content topic requests PIEs from the edges, now and for a while."""

    hub: _Name


class SessionRequest(msgspec.Struct, frozen=True, kw_only=True, tag="request"):
    """Request to accept subscribers of the sender."""

    hub: _Name
    session: _Name
    metric: BalancedMetric
    is_global: bool = False


class SessionReply(msgspec.Struct, frozen=True, kw_only=True, tag="reply"):
    """The reply to a request: OK, with the load and the covering set of the acceptor, or another status."""

    hub: _Name
    session: _Name
    status: HubStatus
    load: EdgeLoad = EdgeLoad()
    covers: _Filters = ()
    # Of a head: its edges.
    edges: Annotated[tuple[_Name, ...], Meta(max_length=1_000)] = ()
    is_global: bool = False


class SessionEnd(msgspec.Struct, frozen=True, kw_only=True, tag="end"):
    """The session requested by the sender ends without a move; or two clusters part."""

    hub: _Name
    session: _Name
    is_global: bool = False


class SessionDone(msgspec.Struct, frozen=True, kw_only=True, tag="done"):
    """All subscribers of the session have attached, or their time is over."""

    hub: _Name
    session: _Name


class SessionEstimate(msgspec.Struct, frozen=True, kw_only=True, tag="estimate"):
    """The estimated load of the acceptor after the subscribers of the session have attached."""

    hub: _Name
    session: _Name
    load: EdgeLoad


class ClusterJoined(msgspec.Struct, frozen=True, kw_only=True, tag="joined"):
    """From a head to its edges: balance with the edges of that cluster, too."""

    hub: _Name
    cluster: _Name


class ClusterParted(msgspec.Struct, frozen=True, kw_only=True, tag="parted"):
    """From a head to its edges: the end of that."""

    hub: _Name
    cluster: _Name


ControlMessage = (
    Pie
    | LoadWanted
    | SessionRequest
    | SessionReply
    | SessionEstimate
    | SessionEnd
    | SessionDone
    | ClusterJoined
    | ClusterParted
)
_decoder = msgspec.json.Decoder(ControlMessage)
_encoder = msgspec.json.Encoder()


def encode(message: ControlMessage) -> bytes:
    return _encoder.encode(message)


def decode(data: bytes) -> ControlMessage | None:
    """None: not one of these messages, or an impossible load."""
    try:
        message = _decoder.decode(data)
    except (msgspec.MsgspecError, RecursionError, ValueError):
        return None
    load, head = getattr(message, "load", None), getattr(message, "head", None)
    if load is not None and not (_is_possible(load) and load.bandwidth_bytes_per_s > 0):
        return None
    return message if head is None or _is_possible(head) else None


def _is_possible(told: EdgeLoad | HeadUse) -> bool:
    numbers = [getattr(told, name) for name in told.__struct_fields__]
    return all(math.isfinite(number) and number >= 0 for number in numbers)
