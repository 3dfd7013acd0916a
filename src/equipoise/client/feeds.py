"""What a seat brings of a topic's streams, part by part. Pure; how parts become one topic is left to merging.py."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import NamedTuple, Protocol, TypeAlias

from equipoise.client.cursor import TopicCursor

TRUNK = b""
"""The name of the stream that every topic has; a lane has that of its hub."""


class Seat(Protocol):
    """A subscription to the topic over one link."""

    is_own: bool
    """Whether it is to some streams of the topic only."""
    is_live: bool
    """Whether its hub has confirmed it."""
    left_out: set[bytes]
    """Streams that it does not bring, as its hub has said. Such as begin later it does."""

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

    __slots__ = ("cursor", "feeds", "is_orphan", "name")

    def __init__(self, name: bytes) -> None:
        self.name = name
        self.cursor = TopicCursor()
        self.feeds: dict[Seat, Feed] = {}
        # Whether it is over once nobody brings it: its hub is dead.
        self.is_orphan = False

    @property
    def is_served(self) -> bool:
        return any(feed.is_in_step for feed in self.feeds.values())

    def is_awaited_from(self, seats: Iterable[Seat]) -> bool:
        """Whether one of these has yet to bring the lane, and may do so from an earlier position on than the others."""
        return bool(self.name) and any(
            seat.is_live and seat not in self.feeds and self.name not in seat.left_out for seat in seats
        )

    def next_lanes(self) -> list[tuple[Seat, list[Part]]]:
        """By seat, what it has brought of later lanes of that name than the present one."""
        found: list[tuple[Seat, list[Part]]] = []
        for seat, feed in self.feeds.items():
            parts = list(feed.parts)
            if feed.start[0] > self.cursor.epoch:
                found.append((seat, [Begun(*feed.start), *parts]))
            elif begun := [at for at, part in enumerate(parts) if type(part) is Begun]:
                found.append((seat, parts[begun[0] :]))
        return found


class Waiting:
    """Feeds with parts that wait, the first to wait first, and the bytes of their messages."""

    __slots__ = ("bytes", "feeds")

    def __init__(self) -> None:
        self.feeds: dict[Feed, None] = {}
        self.bytes = 0

    def add(self, feed: Feed, part: Part) -> None:
        feed.parts.append(part)
        self.feeds[feed] = None
        self.bytes += _size(part)

    def take(self, feed: Feed) -> Part:
        """The first part of a feed."""
        part = feed.parts.popleft()
        self.bytes -= _size(part)
        if not feed.parts:
            self.feeds.pop(feed, None)
        return part

    def drop(self, feed: Feed) -> None:
        while feed.parts:
            self.take(feed)


def _size(part: Part) -> int:
    return sum(map(len, part.payloads)) if type(part) is Messages else 0
