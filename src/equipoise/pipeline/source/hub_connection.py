"""A blocking connection to one hub.

Spark's workers are processes that do one thing at a time, so this blocks: a socket, requests, their replies. Every wait
has a time-out, and the size of a reply is bounded by its request.

Always true: after an error the connection is closed, and the next request opens another.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import hiredis

from equipoise.errors import DisconnectedError, ProtocolError, RefusedError
from equipoise.resp.replies import spell

__all__ = ["Door", "HubConnection", "Piece"]

_CHUNK_BYTES = 256 * 1024
# A reply has the requested size, or one record that is larger, and its frame.
_SLACK_BYTES = 4 * 1024 * 1024


class Piece(NamedTuple):
    """A reply of a hub: consecutive records of one incarnation."""

    incarnation: int
    # The number of the first record read: higher than requested if older ones were dropped.
    first: int
    # The number after the last record read: the next one to request.
    next: int
    # An Arrow IPC stream.
    stream: bytes
    # The number after the last existing record.
    end: int


@dataclass(frozen=True, slots=True)
class Door:
    """Access to a hub: address, login, and time-out."""

    host: str
    port: int
    user: str = ""
    secret: str = ""
    # CA of the hub's certificate; empty: no TLS.
    tls_ca: str = ""
    timeout_s: float = 2.0

    def __repr__(self) -> str:
        """Without the secret: this is printed when a task fails."""
        return f"Door({self.host}:{self.port})"


class HubConnection:
    """One connection to one hub, opened when it is needed."""

    def __init__(self, door: Door) -> None:
        self.door = door
        self._socket: socket.socket | None = None
        self._reader = hiredis.Reader()
        # Why the hub rejected the login, if it did. A hub without users rejects it, but serves requests.
        self._unknown: RefusedError | None = None

    def ask(self, incarnation: int, sequence: int, bytes_max: int) -> Piece:
        """Records of the incarnation from `sequence` on; none if the hub has another one, which the reply has then.

        Raises DisconnectedError if the hub does not reply in time, RefusedError if it refuses, ProtocolError if the
        reply is invalid.
        it says makes no sense.
        """
        words = [b"EQ.TELEMETRY", b"%d" % incarnation, b"%d" % sequence, b"%d" % bytes_max]
        (reply,) = self.call([words], bytes_max + _SLACK_BYTES)
        if isinstance(reply, RefusedError):
            self.close()
            raise reply
        return _piece(reply)

    def call(self, requests: Sequence[Sequence[bytes]], replies_bytes_max: int) -> list[object]:
        """The replies to some commands, sent at once; a RefusedError in place of a refused one's.

        Raises DisconnectedError if the hub does not reply to all of them in time, ProtocolError if it sends too much.
        """
        try:
            return self._exchange(b"".join(map(spell, requests)), len(requests), replies_bytes_max)
        except (OSError, hiredis.HiredisError) as problem:
            self.close()
            raise DisconnectedError(f"{self.door!r}: {problem}") from problem
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        connection, self._socket = self._socket, None
        if connection is not None:
            connection.close()

    def _exchange(self, requests: bytes, count: int, replies_bytes_max: int) -> list[object]:
        if self._socket is None:
            self._open()
        assert self._socket is not None
        self._socket.sendall(requests)
        found: list[object] = []
        received = 0
        while len(found) < count:
            reply = self._reader.gets()
            if reply is not False:
                is_refused = isinstance(reply, hiredis.ReplyError)
                found.append((self._unknown or RefusedError(str(reply))) if is_refused else reply)
                continue
            chunk = self._socket.recv(_CHUNK_BYTES)
            received += len(chunk)
            if not chunk:
                raise ConnectionResetError("the hub closed the connection")
            if received > replies_bytes_max:
                raise ProtocolError(f"{self.door!r} sends more than requested")
            self._reader.feed(chunk)
        return found

    def _open(self) -> None:
        door = self.door
        connection = socket.create_connection((door.host, door.port), door.timeout_s)
        connection.settimeout(door.timeout_s)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if door.tls_ca:
            context = ssl.create_default_context(cafile=door.tls_ca)
            connection = context.wrap_socket(connection, server_hostname=door.host)
        # False stands for "nothing complete yet"; a null reply is None.
        self._socket, self._reader = connection, hiredis.Reader(notEnoughData=False)
        if door.secret:
            self._log_in()

    def _log_in(self) -> None:
        words = [b"AUTH", (self.door.user or "default").encode(), self.door.secret.encode()]
        self._unknown = None
        (reply,) = self._exchange(spell(words), 1, _SLACK_BYTES)
        self._unknown = reply if isinstance(reply, RefusedError) else None


def _piece(reply: object) -> Piece:
    match reply:
        case [int(incarnation), int(first), int(following), bytes(stream), int(end)]:
            if 0 <= first <= following <= end:
                return Piece(incarnation, first, following, stream, end)
    raise ProtocolError("invalid reply to EQ.TELEMETRY")
