"""The connections of one case to one server: a publisher and its subscribers, each on a socket of its own.

After `opened` has entered, every subscriber is subscribed and all sockets are non-blocking. Sockets are closed
by reset, so that thousands of them leave no ports in TIME_WAIT.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from equipoise.errors import DisconnectedError, PeerError, ProtocolError
from equipoise.profile.dialects import ServerProtocol
from equipoise.profile.servers import HOST, ServerUnderTest

ANSWER_S_MAX = 10.0

# Connections opened before their answers are awaited: below the listen backlog of 100 that event loops
# default to.
_OPENING_MAX = 64
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)
_HANDSHAKE_BYTES_MAX = 65536


@dataclass(frozen=True, slots=True)
class LoadSubscribers:
    publisher: socket.socket
    # Subscribers grouped by topic: those of topics[0] first, then those of topics[1], …
    subscribers: list[socket.socket]
    topics: list[bytes]


@contextmanager
def opened(
    server: ServerUnderTest, *, topics: int, fanout: int, is_single: bool
) -> Iterator[LoadSubscribers]:
    """Connect `fanout` subscribers per topic and one publisher. Raises PeerError or DisconnectedError."""
    names = topic_names(topics)
    wanted = [name for name in names for _ in range(fanout)]
    sockets: list[socket.socket] = []
    try:
        subscribe_all(server, wanted, sockets)
        publisher = open_socket(server)
        sockets.append(publisher)
        prepare_publisher(publisher, server.dialect, is_single=is_single)
        for each in sockets:
            each.setblocking(False)
        yield LoadSubscribers(publisher, sockets[:-1], names)
    finally:
        close_all(sockets)


def await_afterword(audience: LoadSubscribers, dialect: ServerProtocol) -> None:
    """Wait until the server has sent its unsolicited messages: before the first publish, or they mix with it."""
    for each in (*audience.subscribers, audience.publisher):
        read_exactly(each, dialect.afterword)
        each.setblocking(False)


def topic_names(topics: int) -> list[bytes]:
    """Names of equal length, legal as a Redis channel and as a NATS subject."""
    return [b"bench.fanout.%05d" % number for number in range(topics)]


def subscribe_all(server: ServerUnderTest, wanted: Sequence[bytes], sockets: list[socket.socket]) -> None:
    """Append one subscribed connection per name in `wanted`. The caller closes them, also after a failure."""
    for start in range(0, len(wanted), _OPENING_MAX):
        group = wanted[start : start + _OPENING_MAX]
        fresh = []
        for name in group:
            each = open_socket(server)
            sockets.append(each)
            fresh.append(each)
            each.sendall(server.dialect.subscribe(name))
        for each, name in zip(fresh, group, strict=True):
            await_subscribed(each, server.dialect, name)


def open_socket(server: ServerUnderTest) -> socket.socket:
    try:
        opened_socket = socket.create_connection((HOST, server.port), timeout=ANSWER_S_MAX)
    except OSError as error:
        raise DisconnectedError(f"{server.name} does not accept a connection: {error}") from error
    opened_socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    opened_socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
    return opened_socket


def await_subscribed(subscriber: socket.socket, dialect: ServerProtocol, topic: bytes) -> None:
    received = b""
    while not dialect.is_subscribed(received, topic):
        received += _receive_some(subscriber, received)


def prepare_publisher(publisher: socket.socket, dialect: ServerProtocol, *, is_single: bool) -> None:
    publisher.sendall(dialect.prepare_publisher(is_single=is_single))
    received = b""
    while not dialect.is_publisher_prepared(received, is_single=is_single):
        received += _receive_some(publisher, received)


def _receive_some(source: socket.socket, so_far: bytes) -> bytes:
    if len(so_far) > _HANDSHAKE_BYTES_MAX:
        raise ProtocolError(f"unexpected answer at connect: {so_far[-100:]!r}")
    try:
        chunk = source.recv(_HANDSHAKE_BYTES_MAX)
    except TimeoutError as error:
        raise PeerError(f"no answer within {ANSWER_S_MAX:g} s at connect, only {so_far[-100:]!r}") from error
    except OSError as error:
        raise PeerError(f"connection lost at connect: {error}") from error
    if not chunk:
        raise PeerError(f"connection closed at connect, after {so_far[-100:]!r}")
    return chunk


def read_exactly(source: socket.socket, expected: bytes) -> None:
    """Wait for exactly these bytes, comparing them. Leaves the socket with a time-out set."""
    source.settimeout(ANSWER_S_MAX)
    received = bytearray()
    deadline = time.monotonic() + ANSWER_S_MAX
    while len(received) < len(expected):
        try:
            chunk = source.recv(len(expected) - len(received))
        except OSError as error:
            raise PeerError(f"{len(received)} of {len(expected)} bytes came: {error}") from error
        if not chunk or time.monotonic() > deadline:
            raise PeerError(f"connection closed or stalled after {len(received)} of {len(expected)} bytes")
        received += chunk
    if received != expected:
        raise ProtocolError(f"bytes differ from what was published: {bytes(received[:100])!r}")


def close_all(sockets: Sequence[socket.socket]) -> None:
    for each in sockets:
        each.close()
