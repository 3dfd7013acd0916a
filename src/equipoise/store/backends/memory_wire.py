"""The protocol between a remote memory store and its server: length-prefixed msgpack frames. Pure.

The client speaks first, with Hello, and numbers its requests; every request but Hello is answered by Done or Failed
with its number. Changed comes unasked. There is no authentication: it is for the simulator and for loopback, and
ZooKeeper for everything else.
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

# A node and its path, in UTF-8, with room to spare.
REQUEST_BYTES_MAX = 2_000_000
# 100,000 children with names of 160 bytes.
REPLY_BYTES_MAX = 16_000_000


class _Message(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """The first element of the array is the class's name."""


class Hello(_Message, frozen=True):
    # The session to go on with; 0 asks for a new one.
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
    # 0: the session asked for has ended.
    session: int


class Done(_Message, frozen=True):
    n: int
    node: Node | None = None
    names: tuple[str, ...] = ()


class Failed(_Message, frozen=True):
    n: int
    error: str
    # The path a NodeError is about, the text of any other.
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
    """The error to raise where the request was made."""
    node_error = _NODE_ERRORS.get(failed.error)
    if node_error is not None:
        return node_error(failed.about)
    return _OTHER_ERRORS.get(failed.error, ProtocolError)(failed.about)


class Frames:
    """Cut a stream of bytes into the bodies of frames, however it was split on the way."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Raises ProtocolError once a frame is announced that is too long; nothing after it can be read."""
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
