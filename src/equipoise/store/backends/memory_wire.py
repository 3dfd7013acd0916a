"""The protocol between a remote memory store and its server: length-prefixed msgpack frames. Pure.

The client begins with Hello, and numbers its requests; every request but Hello gets Done or Failed with its number.
Changed is pushed. There is no authentication: the protocol is for the simulator and for loopback, ZooKeeper for all
other uses.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

import msgspec

from equipoise.errors import (
    BadVersionError,
    EquipoiseError,
    MisuseError,
    NodeError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    ProtocolError,
    SessionLostError,
)
from equipoise.store.contract import Node, WatchKind

__all__ = [
    "Arm",
    "Bye",
    "Changed",
    "Children",
    "Create",
    "Delete",
    "Done",
    "Failed",
    "Frames",
    "Get",
    "Hello",
    "Ping",
    "Reply",
    "Request",
    "Set",
    "Welcome",
    "decode_reply",
    "decode_request",
    "encode",
    "error_of",
    "failure",
]

# A node and its path, in UTF-8, with a reserve.
REQUEST_BYTES_MAX = 2_000_000
# 100,000 children with names of 160 bytes.
REPLY_BYTES_MAX = 16_000_000


class _Message(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """The first element of the array is the class's name."""


class Hello(_Message, frozen=True):
    # The session to continue; 0 requests a new one.
    session: int
    timeout_s: float


class Create(_Message, frozen=True):
    n: int
    path: str
    data: bytes
    ephemeral: bool


class Get(_Message, frozen=True):
    n: int
    path: str


class Set(_Message, frozen=True):
    n: int
    path: str
    data: bytes
    version: int | None


class Delete(_Message, frozen=True):
    n: int
    path: str
    version: int | None


class Children(_Message, frozen=True):
    n: int
    path: str


class Arm(_Message, frozen=True):
    n: int
    path: str
    kind: WatchKind


class Ping(_Message, frozen=True):
    n: int


class Bye(_Message, frozen=True):
    """End the session now."""

    n: int


class Welcome(_Message, frozen=True):
    # 0: the requested session has ended.
    session: int


class Done(_Message, frozen=True):
    n: int
    node: Node | None = None
    names: tuple[str, ...] = ()


class Failed(_Message, frozen=True):
    n: int
    error: str
    # The path of a NodeError, the text of any other.
    about: str


class Changed(_Message, frozen=True):
    path: str
    kind: WatchKind


Request = Hello | Create | Get | Set | Delete | Children | Arm | Ping | Bye
Reply = Welcome | Done | Failed | Changed

_LENGTH = struct.Struct(">I")
_encoder = msgspec.msgpack.Encoder()
_requests: msgspec.msgpack.Decoder[Request] = msgspec.msgpack.Decoder(Request)
_replies: msgspec.msgpack.Decoder[Reply] = msgspec.msgpack.Decoder(Reply)
_NODE_ERRORS: dict[str, type[NodeError]] = {
    kind.__name__: kind for kind in (NodeExistsError, NoNodeError, NotEmptyError, BadVersionError)
}
_OTHER_ERRORS: dict[str, type[EquipoiseError]] = {
    kind.__name__: kind for kind in (MisuseError, SessionLostError)
}


def encode(message: Request | Reply) -> bytes:
    body = _encoder.encode(message)
    return _LENGTH.pack(len(body)) + body


def decode_request(body: bytes) -> Request:
    """Raises ProtocolError."""
    try:
        return _requests.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as problem:
        raise ProtocolError(f"not a request to a store: {problem}") from problem


def decode_reply(body: bytes) -> Reply:
    """Raises ProtocolError."""
    try:
        return _replies.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as problem:
        raise ProtocolError(f"not a reply of a store: {problem}") from problem


def failure(n: int, error: EquipoiseError) -> Failed:
    if isinstance(error, NodeError):
        return Failed(n, type(error).__name__, error.path)
    return Failed(n, type(error).__name__, str(error))


def error_of(failed: Failed) -> EquipoiseError:
    """The error to raise for the request."""
    node_error = _NODE_ERRORS.get(failed.error)
    if node_error is not None:
        return node_error(failed.about)
    return _OTHER_ERRORS.get(failed.error, ProtocolError)(failed.about)


class Frames:
    """Split a stream of bytes into the bodies of frames, for any segmentation."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Raises ProtocolError once a frame that is too long is announced; no later frame can be read."""
        buffer = self._buffer
        buffer += data
        start = 0
        while len(buffer) - start >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(buffer, start)
            if length > self._bytes_max:
                raise ProtocolError(f"a frame of {length} bytes: the maximum is {self._bytes_max}")
            end = start + _LENGTH.size + length
            if len(buffer) < end:
                break
            yield bytes(buffer[start + _LENGTH.size : end])
            start = end
        del buffer[:start]
