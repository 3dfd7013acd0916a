"""Frames about filters: requests of a follower, and the filtered stream.

A hub that attaches to a topic receives all of it. It can send filters (WANT), restrict the stream to them (NARROW), and
revoke that (WIDEN). The next ATTACH, JOIN or DETACH voids all of this. Content topics are followed along a tree, under
versions of the plan (JOIN, RENEW). Edges balance subscribers by messages on control links (CONTROL).
"""

from __future__ import annotations

from equipoise.hub.cluster.link.capability import CONTENT, CONTROL, TREES
from equipoise.hub.cluster.link.frame import Frame, Offsets, Payloads

__all__ = [
    "ControlFrame",
    "FilteredFrame",
    "JoinFrame",
    "NarrowFrame",
    "RenewFrame",
    "RenewedFrame",
    "SpanFrame",
    "UnwantFrame",
    "WantFrame",
    "WantedFrame",
    "WidenFrame",
]


class WantFrame(Frame, frozen=True):
    """Requests messages of the topic that these filters match, too; the reply is WANTED."""

    verb = b"EQ.L.WANT"
    capability = CONTENT
    topic: bytes
    ticket: int
    payloads: Payloads


class UnwantFrame(Frame, frozen=True):
    """Withdraws filters."""

    verb = b"EQ.L.UNWANT"
    capability = CONTENT
    topic: bytes
    payloads: Payloads


class NarrowFrame(Frame, frozen=True):
    """Restricts the stream to messages that the sent filters match, in FILTERED and SPAN."""

    verb = b"EQ.L.NARROW"
    capability = CONTENT
    topic: bytes


class WidenFrame(Frame, frozen=True):
    """Requests everything; the sent filters are void. The reply is WANTED."""

    verb = b"EQ.L.WIDEN"
    capability = CONTENT
    topic: bytes
    ticket: int


class WantedFrame(Frame, frozen=True):
    """The reply to WANT and WIDEN: the request is in effect from the position after (epoch, n)."""

    verb = b"EQ.L.WANTED"
    capability = CONTENT
    topic: bytes
    ticket: int
    epoch: int
    n: int


class FilteredFrame(Frame, frozen=True):
    """A span of `count` positions from `first` on, with the matching messages, at `offsets` from `first`."""

    verb = b"EQ.L.FILTERED"
    capability = CONTENT
    topic: bytes
    epoch: int
    first: int
    count: int
    offsets: Offsets
    payloads: Payloads


class SpanFrame(Frame, frozen=True):
    """A span of `count` positions from `first` on, without matching messages."""

    verb = b"EQ.L.SPAN"
    capability = CONTENT
    topic: bytes
    epoch: int
    first: int
    count: int


class JoinFrame(Frame, frozen=True):
    """Requests the topic's stream; the reply is ATTACHED once the receiver follows its own parent under this version.

    `is_home`: the receiver is the home by the sender's plan; it replies once it is.
    """

    verb = b"EQ.L.JOIN"
    capability = TREES
    topic: bytes
    ticket: int
    version: int
    is_home: bool


class RenewFrame(Frame, frozen=True):
    """Requests to follow under this version of the plan, too; the reply is RENEWED when a JOIN would be confirmed."""

    verb = b"EQ.L.RENEW"
    capability = TREES
    topic: bytes
    version: int
    is_home: bool


class RenewedFrame(Frame, frozen=True):
    """Confirms RENEW for this version of the plan."""

    verb = b"EQ.L.RENEWED"
    capability = TREES
    topic: bytes
    version: int


class ControlFrame(Frame, frozen=True):
    """Messages for a topic `$at/HUB/…` of the receiver. Sent on a control link."""

    verb = b"EQ.L.CONTROL"
    capability = CONTROL
    topic: bytes
    payloads: Payloads
