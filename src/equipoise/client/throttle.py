"""Bound the messages of a rate-limited topic that wait at the hub; further ones wait at the client.

The hub announces the bound (`ahead`): enough to keep it busy, and few enough to leave the connection to the client's
other topics. The client sends until that many wait at the hub, and continues when half of them have replies.

Always true: the number waiting at the hub is known, except for publishes sent since the last count.
"""

from __future__ import annotations

from equipoise.client.wire.connection import Connection

__all__ = ["TopicThrottle"]


class TopicThrottle:
    """One topic at one connection. Owned by its publisher, while publishes to the topic wait at the hub."""

    __slots__ = ("ahead", "connection", "is_counting", "topic")

    def __init__(self, connection: Connection, topic: bytes) -> None:
        self.connection = connection
        self.topic = topic
        # The hub's bound.
        self.ahead = 1
        # Whether publishes were sent whose state is unknown.
        self.is_counting = False

    @property
    def _waiting(self) -> int:
        return self.connection.in_flight.deferred.counts.get(self.topic, 0)

    @property
    def is_on(self) -> bool:
        """Whether publishes to the topic wait at the hub, or may."""
        return not self.connection.lost.done() and (self.is_counting or self._waiting > 0)

    @property
    def room(self) -> int:
        """How many may be sent now."""
        waiting = self._waiting
        if self.connection.lost.done() or self.is_counting or waiting > self.ahead // 2:
            return 0
        return max(1, self.ahead - waiting)
