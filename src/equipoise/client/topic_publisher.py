"""Publishing state of one topic: the current home, messages in flight, waiting messages."""

from __future__ import annotations

from collections.abc import Iterator

from equipoise.client.throttle import TopicThrottle
from equipoise.client.wire.codec import encode_request
from equipoise.client.wire.connection import Connection
from equipoise.client.wire.link import Link
from equipoise.client.wire.requests import Push, Request

__all__ = ["TopicPublisher"]

# Streams whose positions are sent with messages: only the latest ones matter.
TAGS_MAX = 8


class TopicPublisher:
    """One topic. Owned by Publishing."""

    __slots__ = (
        "has_tagged",
        "is_after_all",
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
        # The link of the next messages.
        self.link = link
        # The connection of the last ones; None if it no longer matters.
        self.last_connection: Connection | None = None
        self.last_link = link
        # The query that is in flight before the connection may change: new messages wait for the reply.
        self.question: object = None
        self.waiting: dict[Request, None] = {}
        # By stream, the last positions over former connections, the latest last; and whether to tag the next message.
        self.tags: dict[bytes, tuple[int, int]] = {}
        self.is_tag_due = False
        # Whether the next message follows the last positions of all streams, since the own last position is unknown.
        self.is_after_all = False
        # Whether any message was tagged.
        self.has_tagged = False
        # None while the topic is within its rate limit, or has none.
        self.throttle: TopicThrottle | None = None
        self.used_at = 0.0

    # Dependencies of the next message.

    def note(self, push: Push) -> None:
        """Keep the last position of the stream that the last connection used, from `eq.settled`."""
        stream, epoch, n = push[2:5]
        if not isinstance(stream, bytes) or not isinstance(epoch, int) or not isinstance(n, int) or not epoch:
            return
        self.tags.pop(stream, None)
        self.tags[stream] = (epoch, n)
        if len(self.tags) > TAGS_MAX:
            del self.tags[next(iter(self.tags))]
        self.is_tag_due = True

    def leave_unknown(self) -> None:
        """The last connection is lost, and its hub has ended it: messages over it have positions, which are unknown."""
        self.is_after_all = self.is_tag_due = True
        self.last_connection = None

    def tag_again(self) -> None:
        """A message was not sent, so maybe none after the tags: the hub drops tags with the connection."""
        if self.has_tagged:
            self.is_after_all = self.is_tag_due = True

    def take_tags(self) -> Iterator[bytes]:
        """The requests to send before the next message."""
        self.is_tag_due, self.has_tagged = False, True
        for stream, (epoch, n) in self.tags.items():
            yield encode_request(b"EQ.AFTER", self.topic, stream, b"%d" % epoch, b"%d" % n)
        if self.is_after_all:
            self.is_after_all = False
            yield encode_request(b"EQ.AFTER", self.topic)
