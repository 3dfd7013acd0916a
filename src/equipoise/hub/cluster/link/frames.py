"""Frames between hubs: one frozen type per verb, with names and types of its fields.

A class is the whole definition of a frame: `codec` reads the spelling of each field off its type. Fields are spelled in
the order in which they are declared; `Payloads` may only be the last.

Always true:
    a verb, once released, keeps its fields: a frame that needs others gets a new verb;
    a frame that not every hub understands names the capability that its receiver has to announce.
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

# Streams on their way out.


class AttachFrame(Frame, frozen=True):
    """Send me the topic's stream once you are its home."""

    verb = b"EQ.L.ATTACH"
    topic: bytes
    ticket: int


class DetachFrame(Frame, frozen=True):
    """Send me the stream no longer."""

    verb = b"EQ.L.DETACH"
    key: bytes


class AttachedFrame(Frame, frozen=True):
    """You get the stream from the position after (epoch, n)."""

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
    """What follows in this stream, in its epoch, comes after a position of another stream of the topic.

    The other stream is the lane of the hub `stream`, or the trunk if that is empty. n = 2**53 - 1: after all that there
    is of the lane in that epoch.
    """

    verb = b"EQ.L.AFTER"
    key: bytes
    epoch: int
    stream: bytes
    after_epoch: int
    after_n: int


class OpenedFrame(Frame, frozen=True):
    """The topic's stream goes on in `epoch`, after the end of the former epoch at `hub`; former epoch 0: unknown."""

    verb = b"EQ.L.OPENED"
    topic: bytes
    epoch: int
    hub: str
    former_epoch: int
    former_n: int


class FlushFrame(Frame, frozen=True):
    """I know that this epoch is closed: answer ENDED, behind all of it that comes through you.

    Epoch 0: I have left the stream.
    """

    verb = b"EQ.L.FLUSH"
    topic: bytes
    epoch: int


class EndedFrame(Frame, frozen=True):
    """The answer to FLUSH."""

    verb = b"EQ.L.ENDED"
    topic: bytes
    epoch: int


# Patterns.


class PatternFrame(Frame, frozen=True):
    """Send me the streams of all topics that match and whose home you are."""

    verb = b"EQ.L.PATTERN"
    pattern: bytes
    ticket: int


class NoPatternFrame(Frame, frozen=True):
    """Send me the streams of the pattern no longer."""

    verb = b"EQ.L.NOPATTERN"
    pattern: bytes


class PatternedFrame(Frame, frozen=True):
    """The answer to PATTERN."""

    verb = b"EQ.L.PATTERNED"
    pattern: bytes
    ticket: int


# Plans and handovers.


class DoneFrame(Frame, frozen=True):
    """I have offered all streams that leave me under this stamp: plan version, digest of the hubs that serve by it.

    `epoch` is the latest that I know of.
    """

    verb = b"EQ.L.DONE"
    version: int
    digest: int
    epoch: int


class DeadFrame(Frame, frozen=True):
    """This incarnation of that hub is dead: all that I say from now on, I say knowing it."""

    verb = b"EQ.L.DEAD"
    hub: str
    incarnation: int


class PrepareFrame(Frame, frozen=True):
    """Under this version of the plan the topic is to be yours: are you ready to take it?"""

    verb = b"EQ.L.PREPARE"
    topic: bytes
    version: int


class PreparedFrame(Frame, frozen=True):
    """The answer to PREPARE of that version: yes."""

    verb = b"EQ.L.PREPARED"
    topic: bytes
    version: int


class CancelFrame(Frame, frozen=True):
    """Under this version of the plan the topic is not to be yours: PREPARE is withdrawn."""

    verb = b"EQ.L.CANCEL"
    topic: bytes
    version: int


class CloseFrame(Frame, frozen=True):
    """The topic is yours: my epoch ended at n."""

    verb = b"EQ.L.CLOSE"
    topic: bytes
    epoch: int
    n: int


class TokensFrame(Frame, frozen=True):
    """Said ahead of CLOSE: what a limited topic's bucket has, in millionths of a message (per second) each."""

    verb = b"EQ.L.TOKENS"
    capability = LIMITS
    topic: bytes
    rate: int
    depth: int
    level: int


class RemainderFrame(Frame, frozen=True):
    """A lane of a limited topic has ended under this plan with so many millionths of a token left."""

    verb = b"EQ.L.REMAINDER"
    capability = REMAINDER
    topic: bytes
    version: int
    level: int


class WaitingFrame(Frame, frozen=True):
    """So many connections of mine wait to publish to this limited stream: I count as many in its turns."""

    verb = b"EQ.L.WAITING"
    capability = LIMITS
    key: bytes
    count: int


# Lanes.


class SettledFrame(Frame, frozen=True):
    """All hubs have said DONE about this version: my lanes that it names are open, the others have ended."""

    verb = b"EQ.L.SETTLED"
    version: int


class LaneFrame(Frame, frozen=True):
    """I have this lane; said to a hub that I meet."""

    verb = b"EQ.L.LANE"
    key: bytes


class FollowFrame(Frame, frozen=True):
    """Send me your lane that the plan of this version names, or named: answered with ATTACHED, or OVER."""

    verb = b"EQ.L.FOLLOW"
    key: bytes
    version: int
    ticket: int


class OverFrame(Frame, frozen=True):
    """The lane that you follow ended at n; epoch 0: there is none."""

    verb = b"EQ.L.OVER"
    key: bytes
    epoch: int
    n: int


# Questions.


class AskFrame(Frame, frozen=True):
    """How far is this stream at your hub?"""

    verb = b"EQ.L.ASK"
    key: bytes


class AtFrame(Frame, frozen=True):
    """The answer to ASK: the stream is at (epoch, n), and I am its home or not."""

    verb = b"EQ.L.AT"
    key: bytes
    epoch: int
    n: int
    is_home: bool


class SeverFrame(Frame, frozen=True):
    """End the connection of this client's link; answer SEVERED when all that clients gave you has its position."""

    verb = b"EQ.L.SEVER"
    link: bytes


class SeveredFrame(Frame, frozen=True):
    """The answer to SEVER."""

    verb = b"EQ.L.SEVERED"
    link: bytes


class ProbeFrame(Frame, frozen=True):
    """Answer ECHO at once, for a round trip is measured."""

    verb = b"EQ.L.PROBE"
    capability = PROBE
    token: int


class EchoFrame(Frame, frozen=True):
    """The answer to PROBE, with the sender's coordinate as `coordinates` spells it."""

    verb = b"EQ.L.ECHO"
    capability = PROBE
    token: int
    coordinate: bytes


class LeaseFrame(Frame, frozen=True):
    """Is the sender alive to you? If so, answer with the same token and `is_answer` 1."""

    verb = b"EQ.L.LEASE"
    capability = LEASE
    token: int
    is_answer: int


class LeaveFrame(Frame, frozen=True):
    """The sender stops, in three steps: 0, send me no more messages; 1, the answer; 2, nothing of mine is under way.

    Behind 2 the sender's death costs no message.
    """

    verb = b"EQ.L.LEAVE"
    capability = LEAVE
    step: int


class CountsFrame(Frame, frozen=True):
    """So many clients of the sender subscribe to these names, each spelled by `region_counts.format_count`.

    With `is_first`, all that it sent before is void.
    """

    verb = b"EQ.L.COUNTS"
    capability = COUNTS
    is_first: bool
    payloads: Payloads


FRAMES: tuple[type[Frame], ...] = tuple(Frame.__subclasses__())
