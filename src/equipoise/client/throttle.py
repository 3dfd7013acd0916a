"""Bound the messages of a rate-limited topic that wait at the hub; the others wait at the client.

The hub says how many (`ahead`): so many that it always has the next ones, and so few that the client's other topics
have the connection. The client sends until as many wait there, and more when half of them are answered.

Always true: what waits at the hub is known, but for those that were sent since it was last counted.
"""

from __future__ import annotations

from equipoise.client.wire.connection import Connection

__all__ = ["TopicThrottle"]


class TopicThrottle:
    """One topic at one connection. Owned by its publisher, while anything of the topic waits at the hub."""

    __slots__ = ("ahead", "connection", "is_counting", "topic")

    def __init__(self, connection: Connection, topic: bytes) -> None:
        self.connection = connection
        self.topic = topic
        # As the hub says.
        self.ahead = 1
        # Whether publishes were sent of which it is not known yet whether they wait.
        self.is_counting = False

    @property
    def _waiting(self) -> int:
        return self.connection.in_flight.deferred.counts.get(self.topic, 0)

    @property
    def is_on(self) -> bool:
        """Whether anything of the topic waits at the hub, or may."""
        return not self.connection.lost.done() and (self.is_counting or self._waiting > 0)

    @property
    def room(self) -> int:
        """How many may be sent now."""
        waiting = self._waiting
        if self.connection.lost.done() or self.is_counting or waiting > self.ahead // 2:
            return 0
        return max(1, self.ahead - waiting)
