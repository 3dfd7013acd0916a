"""What a seat brings of a topic's streams, part by part. Pure; how parts become one topic is left to merging.py."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple, Protocol, TypeAlias

from equipoise.client.cursor import TopicCursor

TRUNK = b""
"""The name of the stream that every topic has; a lane has that of its hub."""


class Seat(Protocol):
    """A subscription to the topic over one link."""

    is_own: bool
    """Whether other streams of the topic come from elsewhere, so that marks are ours to keep."""
    is_live: bool

    def leave(self) -> None:
        """End it. Nothing comes over it any more."""


class Messages(NamedTuple):
    epoch: int
    n: int
    payloads: list[bytes]


class Opened(NamedTuple):
    """The stream goes on in another epoch, after (after_epoch, after_n)."""

    epoch: int
    after_epoch: int
    after_n: int


class Mark(NamedTuple):
    """What follows comes after this position of another stream."""

    stream: bytes
    epoch: int
    n: int


class Ended(NamedTuple):
    """The lane is over; epoch 0 if nobody can say where it ended."""

    epoch: int
    n: int


class Begun(NamedTuple):
    """Behind an end: the next lane of that name, which comes from the position after this one."""

    epoch: int
    n: int


Part: TypeAlias = Messages | Opened | Mark | Ended | Begun


class Feed:
    """One stream as it comes over one seat."""

    __slots__ = ("is_in_step", "parts", "seat", "start", "stream")

    def __init__(self, stream: Stream, seat: Seat, start: tuple[int, int]) -> None:
        self.stream = stream
        self.seat = seat
        # The position after which the seat brings the stream.
        self.start = start
        self.is_in_step = False
        # What has come and waits: for the stream to get as far, or for another one.
        self.parts: deque[Part] = deque()


class Stream:
    """The trunk, or a lane."""

    __slots__ = ("cursor", "feeds", "name")

    def __init__(self, name: bytes) -> None:
        self.name = name
        self.cursor = TopicCursor()
        self.feeds: dict[Seat, Feed] = {}

    @property
    def is_served(self) -> bool:
        return any(feed.is_in_step for feed in self.feeds.values())
