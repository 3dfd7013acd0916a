"""Frames between hubs: one frozen type per verb, with names and types of its fields.

A class defines a frame completely: `codec` derives the encoding of each field from its type. Fields are encoded in
order of declaration; `Payloads` may only be the last.

Always true:
    a released verb keeps its fields: a frame with other fields gets a new verb;
    a frame that not every hub supports names the capability that its receiver has to announce.
"""

from __future__ import annotations

from equipoise.hub.cluster.link.capability import COUNTS, LEASE, LEAVE, LIMITS, PROBE, REMAINDER
from equipoise.hub.cluster.link.content_frames import (
    ControlFrame,
    FilteredFrame,
    JoinFrame,
    NarrowFrame,
    RenewedFrame,
    RenewFrame,
    SpanFrame,
    UnwantFrame,
    WantedFrame,
    WantFrame,
    WidenFrame,
)
from equipoise.hub.cluster.link.failover_frames import AgainFrame, FromFrame, ResentFrame, RunFrame, SeenFrame
from equipoise.hub.cluster.link.frame import Frame, Life, Path, Payloads, Tag
from equipoise.hub.cluster.link.ingress_frames import (
    IngressFrame,
    LossFrame,
    MissedFrame,
    NumberedFrame,
    RecalledFrame,
    RecallFrame,
    RecountedFrame,
    RecountFrame,
    ReturnFrame,
    TearFrame,
)
from equipoise.hub.cluster.link.log_frames import (
    AnswerFrame,
    CallFrame,
    OfferFrame,
    ReleasedFrame,
    ReleaseFrame,
    UnwatchFrame,
    WatchFrame,
    WokenFrame,
)
from equipoise.hub.cluster.link.seat_frames import SeatFrame, SitFrame

__all__ = [
    "FRAMES", "AfterFrame", "AgainFrame", "AnswerFrame", "AskFrame", "AtFrame", "AttachFrame", "AttachedFrame",
    "CallFrame", "CancelFrame", "CloseFrame", "ControlFrame", "CountsFrame", "DeadFrame", "DetachFrame", "DoneFrame",
    "EchoFrame",
    "EgressFrame", "EndedFrame", "FilteredFrame", "FlushFrame", "FollowFrame", "Frame", "FromFrame", "IngressFrame",
    "JoinFrame", "LaneFrame", "LeaseFrame", "LeaveFrame", "Life", "LossFrame", "MissedFrame", "NarrowFrame",
    "NoPatternFrame",
    "NumberedFrame", "OfferFrame", "OpenedFrame", "OverFrame", "Path", "PatternFrame", "PatternedFrame", "Payloads",
    "PrepareFrame", "PreparedFrame", "ProbeFrame", "RecallFrame", "RecalledFrame", "RecountFrame", "RecountedFrame",
    "ReleaseFrame", "ReleasedFrame", "RemainderFrame", "RenewFrame", "RenewedFrame",
    "ResentFrame", "ReturnFrame", "RunFrame", "SeatFrame", "SeenFrame", "SettledFrame",
    "SeverFrame", "SeveredFrame", "SitFrame", "SpanFrame", "Tag", "TearFrame", "TokensFrame", "UnwantFrame",
    "UnwatchFrame", "WaitingFrame", "WantFrame", "WantedFrame", "WatchFrame", "WidenFrame", "WokenFrame",
]  # fmt: skip

# Egress of streams.


class AttachFrame(Frame, frozen=True):
    """Requests the topic's stream; the receiver replies with ATTACHED once it is the topic's home."""

    verb = b"EQ.L.ATTACH"
    topic: bytes
    ticket: int


class DetachFrame(Frame, frozen=True):
    """Ends the request for a stream: the receiver sends it no longer."""

    verb = b"EQ.L.DETACH"
    key: bytes


class AttachedFrame(Frame, frozen=True):
    """Confirms ATTACH, JOIN or FOLLOW: the receiver gets the stream from the position after (epoch, n)."""

    verb = b"EQ.L.ATTACHED"
    key: bytes
    ticket: int
    epoch: int
    n: int


class EgressFrame(Frame, frozen=True):
    """A run of the stream; `first` is the position of the first payload."""

    verb = b"EQ.L.EGRESS"
    key: bytes
    epoch: int
    first: int
    payloads: Payloads


class AfterFrame(Frame, frozen=True):
    """Further messages of this stream, in its epoch, depend on a position of another stream of the topic.

    The other stream is the lane of the hub `stream`, or the trunk if that is empty. n = 2**53 - 1: on the whole lane in
    that epoch.
    """

    verb = b"EQ.L.AFTER"
    key: bytes
    epoch: int
    stream: bytes
    after_epoch: int
    after_n: int


class OpenedFrame(Frame, frozen=True):
    """The topic's stream continues in `epoch`, after the end of the former epoch at `hub`; former epoch 0: unknown."""

    verb = b"EQ.L.OPENED"
    topic: bytes
    epoch: int
    hub: str
    former_epoch: int
    former_n: int


class FlushFrame(Frame, frozen=True):
    """The epoch is closed: the receiver replies with ENDED, behind all of the epoch that it sends.

    Epoch 0: the sender has left the stream.
    """

    verb = b"EQ.L.FLUSH"
    topic: bytes
    epoch: int


class EndedFrame(Frame, frozen=True):
    """The reply to FLUSH."""

    verb = b"EQ.L.ENDED"
    topic: bytes
    epoch: int


# Patterns.


class PatternFrame(Frame, frozen=True):
    """Requests the streams of all matching topics whose home the receiver is."""

    verb = b"EQ.L.PATTERN"
    pattern: bytes
    ticket: int


class NoPatternFrame(Frame, frozen=True):
    """Ends the request of PATTERN."""

    verb = b"EQ.L.NOPATTERN"
    pattern: bytes


class PatternedFrame(Frame, frozen=True):
    """The reply to PATTERN."""

    verb = b"EQ.L.PATTERNED"
    pattern: bytes
    ticket: int


# Plans and handovers.


class DoneFrame(Frame, frozen=True):
    """The sender has offered all streams that leave it under this stamp: plan version, and digest of the serving hubs.

    `epoch`: the latest epoch that the sender knows.
    """

    verb = b"EQ.L.DONE"
    version: int
    digest: int
    epoch: int


class DeadFrame(Frame, frozen=True):
    """This incarnation of a hub is dead; the sender has applied that before all its further frames."""

    verb = b"EQ.L.DEAD"
    hub: str
    incarnation: int


class PrepareFrame(Frame, frozen=True):
    """Offers the topic to the receiver, its home under this version of the plan."""

    verb = b"EQ.L.PREPARE"
    topic: bytes
    version: int


class PreparedFrame(Frame, frozen=True):
    """Accepts the PREPARE of that version."""

    verb = b"EQ.L.PREPARED"
    topic: bytes
    version: int


class CancelFrame(Frame, frozen=True):
    """Withdraws PREPARE: under this version of the plan the receiver is not the topic's home."""

    verb = b"EQ.L.CANCEL"
    topic: bytes
    version: int


class CloseFrame(Frame, frozen=True):
    """Hands the topic over: the sender's epoch ended at n."""

    verb = b"EQ.L.CLOSE"
    topic: bytes
    epoch: int
    n: int


class TokensFrame(Frame, frozen=True):
    """Sent before CLOSE: the bucket of a limited topic, in millionths of a message (per second) each."""

    verb = b"EQ.L.TOKENS"
    capability = LIMITS
    topic: bytes
    rate: int
    depth: int
    level: int


class RemainderFrame(Frame, frozen=True):
    """A lane of a limited topic has ended under this plan, with `level` millionths of a token left."""

    verb = b"EQ.L.REMAINDER"
    capability = REMAINDER
    topic: bytes
    version: int
    level: int


class WaitingFrame(Frame, frozen=True):
    """`count` connections of the sender wait to publish to this limited stream: it gets as many turns."""

    verb = b"EQ.L.WAITING"
    capability = LIMITS
    key: bytes
    count: int


# Lanes.


class SettledFrame(Frame, frozen=True):
    """After DONE of all hubs for this version: the sender's lanes that it names are open, the others have ended."""

    verb = b"EQ.L.SETTLED"
    version: int


class LaneFrame(Frame, frozen=True):
    """The sender has this lane; sent to a newly linked hub."""

    verb = b"EQ.L.LANE"
    key: bytes


class FollowFrame(Frame, frozen=True):
    """Requests the receiver's lane that the plan of this version names, or named; the reply is ATTACHED or OVER."""

    verb = b"EQ.L.FOLLOW"
    key: bytes
    version: int
    ticket: int


class OverFrame(Frame, frozen=True):
    """The followed lane has ended at n; epoch 0: there is no such lane."""

    verb = b"EQ.L.OVER"
    key: bytes
    epoch: int
    n: int


# Requests.
class AskFrame(Frame, frozen=True):
    """Queries the position of a stream at the receiver."""

    verb = b"EQ.L.ASK"
    key: bytes


class AtFrame(Frame, frozen=True):
    """The reply to ASK: the stream is at (epoch, n); `is_home`: the sender is its home."""

    verb = b"EQ.L.AT"
    key: bytes
    epoch: int
    n: int
    is_home: bool


class SeverFrame(Frame, frozen=True):
    """Requests the end of a client's link; the reply is SEVERED once all messages received over it are numbered."""

    verb = b"EQ.L.SEVER"
    link: bytes


class SeveredFrame(Frame, frozen=True):
    """The reply to SEVER."""

    verb = b"EQ.L.SEVERED"
    link: bytes


class ProbeFrame(Frame, frozen=True):
    """Measures a round trip: the receiver replies with ECHO at once."""

    verb = b"EQ.L.PROBE"
    capability = PROBE
    token: int


class EchoFrame(Frame, frozen=True):
    """The reply to PROBE, with the sender's coordinate as encoded by `coordinates`."""

    verb = b"EQ.L.ECHO"
    capability = PROBE
    token: int
    coordinate: bytes


class LeaseFrame(Frame, frozen=True):
    """Asks whether the receiver considers the sender alive; if so, the reply has the same token and `is_answer` 1."""

    verb = b"EQ.L.LEASE"
    capability = LEASE
    token: int
    is_answer: int


class LeaveFrame(Frame, frozen=True):
    """Orderly shutdown in three steps: 0, the receiver sends no more messages; 1, the reply; 2, none is in flight.

    After step 2 the sender's end loses no message.
    """

    verb = b"EQ.L.LEAVE"
    capability = LEAVE
    step: int


class CountsFrame(Frame, frozen=True):
    """Numbers of the sender's subscribers by name, each encoded by `region_counts.format_count`.

    `is_first`: all earlier counts of the sender are void.
    """

    verb = b"EQ.L.COUNTS"
    capability = COUNTS
    is_first: bool
    payloads: Payloads


FRAMES: tuple[type[Frame], ...] = tuple(Frame.__subclasses__())
