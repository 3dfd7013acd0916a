"""Frames about seats: which smart publisher of a split topic publishes at which home."""

from __future__ import annotations

from equipoise.hub.cluster.link.capability import SEATS
from equipoise.hub.cluster.link.frame import Frame

__all__ = ["SeatFrame", "SitFrame"]


class SitFrame(Frame, frozen=True):
    """Reports to the trunk's home that this client of a group publishes the topic at the sender, or has left.

    `is_seated`: it was redirected here, or published here before seats were assigned.
    """

    verb = b"EQ.L.SIT"
    capability = SEATS
    topic: bytes
    client: bytes
    group: bytes
    is_seated: int
    is_gone: int


class SeatFrame(Frame, frozen=True):
    """Sent by the trunk's home: this client of the receiver has to publish the topic at that home."""

    verb = b"EQ.L.SEAT"
    capability = SEATS
    topic: bytes
    client: bytes
    home: str
