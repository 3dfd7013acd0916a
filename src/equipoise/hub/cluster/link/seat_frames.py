"""Frames about seats: which smart publisher of a split topic publishes at which home."""

from __future__ import annotations

from equipoise.hub.cluster.link.capability import SEATS
from equipoise.hub.cluster.link.frame import Frame

__all__ = ["SeatFrame", "SitFrame"]


class SitFrame(Frame, frozen=True):
    """Said to the trunk's home: this client of a group publishes the topic here, or has left.

    `is_seated`: it was told to, or has done so since before you dealt seats.
    """

    verb = b"EQ.L.SIT"
    capability = SEATS
    topic: bytes
    client: bytes
    group: bytes
    is_seated: int
    is_gone: int


class SeatFrame(Frame, frozen=True):
    """Said by the trunk's home: this client of yours publishes the topic at that home from now on."""

    verb = b"EQ.L.SEAT"
    capability = SEATS
    topic: bytes
    client: bytes
    home: str
