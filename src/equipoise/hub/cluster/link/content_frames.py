"""Frames about filters: requests of a follower, and the filtered stream.

A hub that attaches to a topic gets all of it. It names filters (WANT), says that nothing else is needed (NARROW), and
takes that back (WIDEN). All of this is void with the next ATTACH, JOIN or DETACH. Content topics are followed along a
tree, under versions of the plan (JOIN, RENEW). Edges balance subscribers by messages on a link of their own (CONTROL).
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
    """Among what I want of the topic is what these filters match; answered with WANTED."""

    verb = b"EQ.L.WANT"
    capability = CONTENT
    topic: bytes
    ticket: int
    payloads: Payloads


class UnwantFrame(Frame, frozen=True):
    """I no longer want what these filters match, unless another does."""

    verb = b"EQ.L.UNWANT"
    capability = CONTENT
    topic: bytes
    payloads: Payloads


class NarrowFrame(Frame, frozen=True):
    """Send me from now on only what the filters match that I have named, in FILTERED and SPAN."""

    verb = b"EQ.L.NARROW"
    capability = CONTENT
    topic: bytes


class WidenFrame(Frame, frozen=True):
    """Send me everything; the filters that I have named are void. Answered with WANTED."""

    verb = b"EQ.L.WIDEN"
    capability = CONTENT
    topic: bytes
    ticket: int


class WantedFrame(Frame, frozen=True):
    """The answer to WANT and WIDEN: what you get from the position after (epoch, n) on goes by it."""

    verb = b"EQ.L.WANTED"
    capability = CONTENT
    topic: bytes
    ticket: int
    epoch: int
    n: int


class FilteredFrame(Frame, frozen=True):
    """Of `count` positions from `first` on, all messages that you want, at `offsets` behind `first`."""

    verb = b"EQ.L.FILTERED"
    capability = CONTENT
    topic: bytes
    epoch: int
    first: int
    count: int
    offsets: Offsets
    payloads: Payloads


class SpanFrame(Frame, frozen=True):
    """Of `count` positions from `first` on you want none."""

    verb = b"EQ.L.SPAN"
    capability = CONTENT
    topic: bytes
    epoch: int
    first: int
    count: int


class JoinFrame(Frame, frozen=True):
    """Send me the topic's stream once you follow your own parent under this version of the plan: answered by ATTACHED.

    `is_home`: I take you for its home: send it once you are.
    """

    verb = b"EQ.L.JOIN"
    capability = TREES
    topic: bytes
    ticket: int
    version: int
    is_home: bool


class RenewFrame(Frame, frozen=True):
    """I follow the topic at you under this version of the plan as well: answer RENEWED once you would let me JOIN."""

    verb = b"EQ.L.RENEW"
    capability = TREES
    topic: bytes
    version: int
    is_home: bool


class RenewedFrame(Frame, frozen=True):
    """You follow the topic at me under this version of the plan."""

    verb = b"EQ.L.RENEWED"
    capability = TREES
    topic: bytes
    version: int


class ControlFrame(Frame, frozen=True):
    """Publish these messages to a topic `$at/HUB/…` of yours. Sent on a control link."""

    verb = b"EQ.L.CONTROL"
    capability = CONTROL
    topic: bytes
    payloads: Payloads
