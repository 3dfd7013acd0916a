"""Frames that carry messages of a dead home to the next home (docs/decisions/0021)."""

from __future__ import annotations

from equipoise.hub.cluster.link.capability import RESEND
from equipoise.hub.cluster.link.frame import Frame, Payloads

__all__ = ["ANY_SEQUENCE", "AgainFrame", "FromFrame", "ResentFrame", "RunFrame", "SeenFrame"]

# The sequence of messages through a forwarding hub, which does not forward sequences: any that was sent so far.
ANY_SEQUENCE = 2**62


class RunFrame(Frame, frozen=True):
    """Like INGRESS, for messages of the sender's own clients without dependencies.

    They have sequences of the sender: the first has `sequence`, the others the following ones.
    """

    verb = b"EQ.L.RUN"
    capability = RESEND
    key: bytes
    version: int
    sequence: int
    payloads: Payloads


class FromFrame(Frame, frozen=True):
    """The origin of the next messages: the incarnation of a hub, and the sequence of the last of them."""

    verb = b"EQ.L.FROM"
    capability = RESEND
    key: bytes
    hub: str
    incarnation: int
    sequence: int


class SeenFrame(Frame, frozen=True):
    """The home of the topic is dead. The sender has received the receiver's messages up to that sequence."""

    verb = b"EQ.L.SEEN"
    capability = RESEND
    key: bytes
    sequence: int


class ResentFrame(Frame, frozen=True):
    """The sender has resent its messages to that dead incarnation, which no hub has received, to the next homes."""

    verb = b"EQ.L.RESENT"
    capability = RESEND
    hub: str
    incarnation: int


class AgainFrame(Frame, frozen=True):
    """Messages up to n of the epoch may have reached clients of the dead home: new subscribers begin behind them."""

    verb = b"EQ.L.AGAIN"
    capability = RESEND
    topic: bytes
    epoch: int
    n: int
