"""Events, phases and effects of an edge that balances. Pure.

The docstrings of events and effects are the text of docs/reference/balancing.md.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple, TypeAlias

from equipoise.content.balancing.detection import Detection, OffloadRequest
from equipoise.content.balancing.messages import (
    ControlMessage,
    HubStatus,
    SessionDone,
    SessionEnd,
    SessionReply,
    SessionRequest,
)
from equipoise.content.balancing.offload import Offload

__all__ = [
    "STATUSES",
    "Announce",
    "BalancingEffect",
    "BeginSampling",
    "Detected",
    "DoneReceived",
    "EdgeEvent",
    "EdgePhase",
    "EndReceived",
    "MigrateSubscribers",
    "PeerLost",
    "PhaseOverdue",
    "ReplyReceived",
    "RequestReceived",
    "SamplingOver",
    "SendControl",
    "SessionEnded",
    "SubscriberCame",
]


class EdgePhase(StrEnum):
    """The state of an edge."""

    OK = "ok"
    UNAVAILABLE = "n/a"
    STABILIZING = "stabilizing"
    ASKING = "asking"
    SAMPLING = "sampling"
    MIGRATING = "migrating"
    ACCEPTING = "accepting"

    __hash__ = object.__hash__


# The state in PIEs: an edge with a pending request accepts no other session, so it is BUSY as well.
STATUSES: dict[EdgePhase, HubStatus] = {
    EdgePhase.OK: HubStatus.OK,
    EdgePhase.UNAVAILABLE: HubStatus.UNAVAILABLE,
    EdgePhase.STABILIZING: HubStatus.STABILIZING,
    EdgePhase.ASKING: HubStatus.BUSY,
    EdgePhase.SAMPLING: HubStatus.BUSY,
    EdgePhase.MIGRATING: HubStatus.BUSY,
    EdgePhase.ACCEPTING: HubStatus.BUSY,
}


# Events.


class Detected(NamedTuple):
    """a detection has run"""

    detection: Detection
    # The possible requests: without pairs whose last sessions were useless.
    requests: tuple[OffloadRequest, ...]
    # Whether the stabilising time is over and the load is steady.
    is_steady: bool
    # Whether a ratio has been between its thresholds for a while.
    is_stuck: bool = False


class RequestReceived(NamedTuple):
    """a hub requests a session"""

    message: SessionRequest


class ReplyReceived(NamedTuple):
    """a hub replies to the request"""

    message: SessionReply
    # Whether the requesting hub is overloaded, or still has more load than the reply states.
    is_needed: bool = True


class EndReceived(NamedTuple):
    """the requesting hub ends the session"""

    message: SessionEnd


class DoneReceived(NamedTuple):
    """the acceptor sends DONE"""

    message: SessionDone


class SamplingOver(NamedTuple):
    """enough messages are sampled, or the sampling time is over"""

    offload: Offload


class SubscriberCame(NamedTuple):
    """a subscriber of the session attaches"""

    session: str
    # The number of all that attach.
    total: int


class PhaseOverdue(NamedTuple):
    """the time is over"""


class PeerLost(NamedTuple):
    """a hub has died, or shares no topic with this hub any more"""

    hub: str


EdgeEvent: TypeAlias = (
    Detected
    | RequestReceived
    | ReplyReceived
    | EndReceived
    | DoneReceived
    | SamplingOver
    | SubscriberCame
    | PhaseOverdue
    | PeerLost
)


# Effects.


class SendControl(NamedTuple):
    """send a message to a hub"""

    hub: str
    message: ControlMessage


class BeginSampling(NamedTuple):
    """profile all subscriptions, with the covering set of the acceptor"""

    reply: SessionReply


class MigrateSubscribers(NamedTuple):
    """send subscribers to their new edge"""

    hub: str
    session: str
    offload: Offload


class Announce(NamedTuple):
    """publish a PIE at once"""


class SessionEnded(NamedTuple):
    """the session is over"""

    peer: str
    session: str
    is_offloader: bool
    # The number of subscribers that have moved, as far as this hub knows.
    subscribers: int


BalancingEffect: TypeAlias = SendControl | BeginSampling | MigrateSubscribers | Announce | SessionEnded
