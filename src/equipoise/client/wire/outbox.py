"""Admit requests to one link's connection: at most a window of them may be without a reply.

Beyond the window a request waits its turn in order; a publish without receipt is refused at once. Nothing sent is ever
sent again: what was under way when a connection is lost is uncertain and its publisher is told. What had not been sent
goes back to where it came from.

The waiting line needs no bound of its own: each place in it is a caller that waits, or is counted by publishing.py.
"""

from __future__ import annotations

from equipoise.client.settings import ClientSettings
from equipoise.client.wire.connection import Connection
from equipoise.client.wire.requests import Request
from equipoise.errors import BackloggedError


class Outbox:
    """Owned by one link, which attaches and detaches its connections."""

    __slots__ = ("_bytes_max", "_line", "_messages_max", "connection")

    def __init__(self, settings: ClientSettings) -> None:
        self._messages_max = settings.in_flight_messages_max
        self._bytes_max = settings.in_flight_bytes_max
        # A dict for its order, and for leaving it from anywhere.
        self._line: dict[Request, None] = {}
        self.connection: Connection | None = None

    @property
    def is_busy(self) -> bool:
        """Whether anything has no reply yet."""
        return bool(self._line) or (self.connection is not None and self.connection.owed.messages > 0)

    def put(self, request: Request) -> None:
        """Send in turn. There has to be a connection."""
        connection = self.connection
        assert connection is not None, "only a link that is up is given anything"
        if not self._line and self._has_room(connection, request.size):
            connection.submit(request)
        else:
            self._line[request] = None

    def put_nowait(self, frame: bytes, size: int) -> None:
        """Send at once. Raises BackloggedError if there is no room."""
        connection = self.connection
        assert connection is not None, "only a link that is up is given anything"
        if not self._has_room(connection, size) or self._line:
            raise BackloggedError(
                f"{connection.owed.messages} publishes ({connection.owed.bytes} bytes) have no receipt yet; "
                "await flush() or use publish(), which waits by itself"
            )
        connection.owed.add_nowait(size)
        connection.send(frame)

    def withdraw(self, request: Request) -> None:
        """Nobody waits for it any more. What has been sent stays sent."""
        self._line.pop(request, None)

    def _has_room(self, connection: Connection, size: int) -> bool:
        owed = connection.owed
        return owed.messages < self._messages_max and owed.bytes + size <= self._bytes_max

    # What the link tells.

    def attach(self, connection: Connection) -> None:
        self.connection = connection

    def detach(self) -> list[Request]:
        """The connection is gone: what had not been sent, in order."""
        self.connection = None
        return self.take_unsent()

    def take_unsent(self) -> list[Request]:
        line, self._line = list(self._line), {}
        return line

    def pump(self) -> None:
        """Send from the line what the window has room for."""
        connection = self.connection
        while self._line and connection is not None:
            request = next(iter(self._line))
            if not self._has_room(connection, request.size):
                return
            del self._line[request]
            if not request.is_over:
                connection.submit(request)
