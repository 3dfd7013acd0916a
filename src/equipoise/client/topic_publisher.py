"""Publishing state of one topic: the current home, messages in flight, waiting messages."""

from __future__ import annotations

from equipoise.client.throttle import TopicThrottle
from equipoise.client.wire.connection import Connection
from equipoise.client.wire.link import Link
from equipoise.client.wire.requests import Request

__all__ = ["TopicPublisher"]


class TopicPublisher:
    """One topic. Owned by Publishing."""

    __slots__ = (
        "is_tag_due",
        "last_connection",
        "last_link",
        "link",
        "question",
        "tags",
        "throttle",
        "topic",
        "used_at",
        "waiting",
    )

    def __init__(self, topic: bytes, link: Link) -> None:
        self.topic = topic
        # Where the next messages are to go.
        self.link = link
        # Where the last ones went; None if that does not matter any more.
        self.last_connection: Connection | None = None
        self.last_link = link
        # In flight before the connection may change: what is published waits for the answer.
        self.question: object = None
        self.waiting: dict[Request, None] = {}
        # By stream, the positions reached in those used before, the latest last; and whether the next message must say.
        self.tags: dict[bytes, tuple[int, int]] = {}
        self.is_tag_due = False
        # None while the topic is within its rate limit, or has none.
        self.throttle: TopicThrottle | None = None
        self.used_at = 0.0
