"""Frames that carry messages of a dead home to the next home (docs/decisions/0021)."""

from __future__ import annotations

from equipoise.hub.cluster.link.capability import RESEND
from equipoise.hub.cluster.link.frame import Frame, Payloads

__all__ = ["ANY_SEQUENCE", "AgainFrame", "FromFrame", "ResentFrame", "RunFrame", "SeenFrame"]

# The sequence of messages that came through a further hub, which does not pass theirs on: any that was sent so far.
ANY_SEQUENCE = 2**62


class RunFrame(Frame, frozen=True):
    """As INGRESS, for messages of the sender's own clients that come after nothing in another stream.

    The sender has numbered them: the first has `sequence`, those behind it the following ones.
    """

    verb = b"EQ.L.RUN"
    capability = RESEND
    key: bytes
    version: int
    sequence: int
    payloads: Payloads


class FromFrame(Frame, frozen=True):
    """The messages that come next came from that life of a hub, the last of them with that sequence."""

    verb = b"EQ.L.FROM"
    capability = RESEND
    key: bytes
    hub: str
    incarnation: int
    sequence: int


class SeenFrame(Frame, frozen=True):
    """The home of the topic is dead. Of the receiver's messages the sender has seen those up to that sequence."""

    verb = b"EQ.L.SEEN"
    capability = RESEND
    key: bytes
    sequence: int


class ResentFrame(Frame, frozen=True):
    """What the sender had sent into that life, which is over, and no hub has seen, it has sent to the next homes."""

    verb = b"EQ.L.RESENT"
    capability = RESEND
    hub: str
    incarnation: int


class AgainFrame(Frame, frozen=True):
    """Messages up to n of the epoch may have reached clients of the dead home: new subscribers begin behind."""

    verb = b"EQ.L.AGAIN"
    capability = RESEND
    topic: bytes
    epoch: int
    n: int
