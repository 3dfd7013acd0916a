"""Frames between a ledger client and a bookie: BookKeeper's protocol, version 2.

A frame is a length word, a header word (version, operation, flags) and the operation's fields, big endian. Answers have
no request id: a client matches them by operation, ledger and entry. Adds of one ledger are answered in order; answers
of different ledgers may be reordered.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from enum import IntEnum, IntFlag
from typing import NamedTuple

from equipoise.errors import ProtocolError
from equipoise.ledger.protobuf import MalformedError, bytes_field, fields

__all__ = [
    "FRAME_BYTES_MAX",
    "LAST_ENTRY",
    "AddAnswer",
    "AddRequest",
    "AuthAnswer",
    "AuthRequest",
    "BatchAnswer",
    "BatchRequest",
    "Code",
    "Flag",
    "FrameReader",
    "Operation",
    "ReadAnswer",
    "ReadRequest",
    "add_head",
    "decode_answer",
    "decode_request",
    "encode_add",
    "encode_add_answer",
    "encode_auth",
    "encode_auth_answer",
    "encode_batch",
    "encode_batch_answer",
    "encode_read",
    "encode_read_answer",
    "plain_add",
    "stored_entry",
]

VERSION = 2
_AUTH_PLUGIN = b"equipoise"
# Including the length word. BookKeeper's default; a larger frame closes the connection.
FRAME_BYTES_MAX = 5 * 1024 * 1024
KEY_BYTES = 20
# Entry number of a read for the last entry that the bookie has of the ledger.
LAST_ENTRY = -1


class Operation(IntEnum):
    ADD = 1
    READ = 2
    # A login. The frame is BookKeeper's; its content is specific to an auth plugin, here our own.
    AUTH = 3
    # A read of several consecutive entries.
    BATCH = 7


class Flag(IntFlag):
    # Of reads: refuse ordinary adds to the ledger from now on.
    FENCE = 1
    # Of adds: accept the entry although the ledger is fenced.
    RECOVERY = 2
    # Accept the request although the bookie is read-only for lack of space.
    HIGH_PRIORITY = 4


class Code(IntEnum):
    OK = 0
    NO_LEDGER = 1
    NO_ENTRY = 2
    BAD_REQUEST = 100
    IO_ERROR = 101
    # The key differs from that of the ledger's first request.
    WRONG_KEY = 102
    BAD_VERSION = 103
    FENCED = 104
    READ_ONLY = 105
    BUSY = 106
    # The bookie does not know whether it has the entry.
    UNKNOWN = 107


class AddRequest(NamedTuple):
    ledger: int
    entry: int
    key: bytes
    flags: Flag
    # The stored entry, see `entry.py`. In a decoded request, a view of its frame.
    body: bytes | memoryview


class ReadRequest(NamedTuple):
    ledger: int
    entry: int
    # Present exactly in fencing reads.
    key: bytes | None
    flags: Flag


class BatchRequest(NamedTuple):
    ledger: int
    first: int
    # Repeated in the answer.
    ticket: int
    # The first entry is returned regardless of its size.
    count_max: int
    bytes_max: int


class AuthRequest(NamedTuple):
    user: str
    password: str


class AuthAnswer(NamedTuple):
    # The reason of the refusal; empty: accepted.
    refusal: str


class AddAnswer(NamedTuple):
    code: Code
    ledger: int
    entry: int


class ReadAnswer(NamedTuple):
    code: Code
    ledger: int
    # As requested, also LAST_ENTRY.
    entry: int
    # The stored entry, if the code is OK.
    body: bytes


class BatchAnswer(NamedTuple):
    # Of the first entry.
    code: Code
    ledger: int
    first: int
    ticket: int
    # Consecutive stored entries from the first on; empty unless the code is OK.
    bodies: list[bytes]


_CODES = {int(code): code for code in Code}
_OPERATIONS = {int(operation): operation for operation in Operation}

_NO_FLAGS = Flag(0)
_HEAD = struct.Struct(">II")
_LENGTH = struct.Struct(">I")
_IDS = struct.Struct(">qq")
_ANSWER = struct.Struct(">IIiqq")
_ANSWER_BODY = struct.Struct(">iqq")
_BATCH = struct.Struct(">qqqiq")
_BATCH_ANSWER = struct.Struct(">IIiqqq")
_TICKET = struct.Struct(">q")
_SIZE = struct.Struct(">i")


def _header(operation: Operation, flags: int = 0) -> int:
    return VERSION << 24 | int(operation) << 16 | int(flags)


# Header of an add without flags, and of its answer.
_ADD_HEADER = _header(Operation.ADD)
_ADD_HEADER_BYTES = _ADD_HEADER.to_bytes(4, "big")
_READ_ANSWER_HEADER = _header(Operation.READ)
_ANSWER_BYTES = _ANSWER.size - _LENGTH.size
_STORED_HEAD = _HEAD.pack(_ANSWER_BYTES, _ADD_HEADER) + bytes(4)
# Length word, header, key, ledger and entry of an add.
_ADD = struct.Struct(f">II{KEY_BYTES}sqq")
_ADD_BODY_AT = _ADD.size - _IDS.size


def encode_add(key: bytes, body: bytes, flags: Flag = _NO_FLAGS) -> bytes:
    """Encode an add of a stored entry, which begins with its ledger and entry."""
    return add_head(key, len(body), flags) + body


def add_head(key: bytes, size: int, flags: Flag = _NO_FLAGS) -> bytes:
    """The part of an add before a stored entry of this size."""
    header = _header(Operation.ADD, flags) if flags else _ADD_HEADER
    return _HEAD.pack(4 + KEY_BYTES + size, header) + key


def encode_read(ledger: int, entry: int, *, key: bytes | None = None, flags: Flag = _NO_FLAGS) -> bytes:
    """Encode a read. With `key` it fences the ledger."""
    if key is None:
        return _HEAD.pack(20, _header(Operation.READ, flags)) + _IDS.pack(ledger, entry)
    head = _HEAD.pack(20 + KEY_BYTES, _header(Operation.READ, flags | Flag.FENCE))
    return b"".join((head, _IDS.pack(ledger, entry), key))


def encode_batch(request: BatchRequest) -> bytes:
    return _HEAD.pack(4 + _BATCH.size, _header(Operation.BATCH)) + _BATCH.pack(*request)


def encode_auth(user: str, password: str) -> bytes:
    """Encode a login. Name and password contain no NUL byte."""
    return _encode_auth(f"{user}\0{password}")


def encode_auth_answer(refusal: str = "") -> bytes:
    return _encode_auth(refusal)


def _encode_auth(text: str) -> bytes:
    message = bytes_field(1, _AUTH_PLUGIN) + bytes_field(2, text.encode())
    return _HEAD.pack(4 + len(message), _header(Operation.AUTH)) + message


def _auth_text(frame: bytes) -> str:
    try:
        found = dict(fields(frame[4:]))
        text = found.get(2, b"")
        if found.get(1) != _AUTH_PLUGIN or not isinstance(text, bytes):
            raise ProtocolError("a login for an unknown plugin")
        return text.decode()
    except (MalformedError, UnicodeDecodeError) as error:
        raise ProtocolError(f"an invalid login: {error}") from error


def encode_add_answer(code: Code, ledger: int, entry: int) -> bytes:
    if code is Code.OK:
        return _STORED_HEAD + _IDS.pack(ledger, entry)
    return _ANSWER.pack(_ANSWER_BYTES, _ADD_HEADER, code, ledger, entry)


def encode_read_answer(code: Code, ledger: int, entry: int, body: bytes = b"") -> bytes:
    return _ANSWER.pack(_ANSWER_BYTES + len(body), _READ_ANSWER_HEADER, code, ledger, entry) + body


def encode_batch_answer(code: Code, request: BatchRequest, bodies: Iterable[bytes] = ()) -> bytes:
    parts = [part for body in bodies for part in (_SIZE.pack(len(body)), body)]
    size = _BATCH_ANSWER.size - _LENGTH.size + sum(map(len, parts))
    head = _BATCH_ANSWER.pack(
        size, _header(Operation.BATCH), code, request.ledger, request.first, request.ticket
    )
    return b"".join((head, *parts))


def decode_request(frame: bytes) -> AddRequest | ReadRequest | BatchRequest | AuthRequest:
    """Decode a frame without its length word. Raises ProtocolError unless it is an add, a read or a login."""
    is_plain_add = frame[:4] == _ADD_HEADER_BYTES
    operation, flags = (Operation.ADD, _NO_FLAGS) if is_plain_add else _operation_of(frame)
    if operation is Operation.AUTH:
        user, _, password = _auth_text(frame).partition("\0")
        return AuthRequest(user, password)
    if operation is Operation.ADD:
        if len(frame) < 4 + KEY_BYTES + _IDS.size:
            raise ProtocolError(f"an add of {len(frame)} bytes has no room for its key, ledger and entry")
        body = memoryview(frame)[4 + KEY_BYTES :]
        ledger, entry = _IDS.unpack_from(body)
        return AddRequest(ledger, entry, frame[4 : 4 + KEY_BYTES], flags, body)
    if operation is Operation.BATCH:
        if len(frame) != 4 + _BATCH.size:
            raise ProtocolError(f"a batch read of {len(frame)} bytes, which is not the size of one")
        return BatchRequest(*_BATCH.unpack_from(frame, 4))
    is_fencing = bool(flags & Flag.FENCE)
    if len(frame) != 4 + _IDS.size + (KEY_BYTES if is_fencing else 0):
        raise ProtocolError(f"a read of {len(frame)} bytes, which is not the size of a read")
    ledger, entry = _IDS.unpack_from(frame, 4)
    return ReadRequest(ledger, entry, frame[4 + _IDS.size :] if is_fencing else None, flags)


def plain_add(data: bytes) -> AddRequest | None:
    """The request, if the bytes are one whole add without flags, its length word included: by far the most frequent."""
    if not _ADD.size <= len(data) <= FRAME_BYTES_MAX:
        return None
    size, header, key, ledger, entry = _ADD.unpack_from(data)
    if header != _ADD_HEADER or size + _LENGTH.size != len(data):
        return None
    return AddRequest(ledger, entry, key, _NO_FLAGS, memoryview(data)[_ADD_BODY_AT:])


def decode_answer(frame: bytes) -> AddAnswer | ReadAnswer | BatchAnswer | AuthAnswer:
    """Decode an answer without its length word. Raises ProtocolError. An unknown code becomes UNKNOWN."""
    operation = Operation.ADD if frame[:4] == _ADD_HEADER_BYTES else _operation_of(frame)[0]
    if operation is Operation.AUTH:
        return AuthAnswer(_auth_text(frame))
    if len(frame) < 4 + _ANSWER_BODY.size:
        raise ProtocolError(f"an answer of {len(frame)} bytes is shorter than its fields")
    number, ledger, entry = _ANSWER_BODY.unpack_from(frame, 4)
    code = _CODES.get(number, Code.UNKNOWN)
    if operation is Operation.ADD:
        return AddAnswer(code, ledger, entry)
    if operation is Operation.BATCH:
        return _batch_answer(code, ledger, entry, frame)
    return ReadAnswer(code, ledger, entry, frame[4 + _ANSWER_BODY.size :])


def _batch_answer(code: Code, ledger: int, first: int, frame: bytes) -> BatchAnswer:
    at, bodies = 4 + _ANSWER_BODY.size + _TICKET.size, list[bytes]()
    if len(frame) < at:
        raise ProtocolError(f"an answer of {len(frame)} bytes is shorter than its fields")
    (ticket,) = _TICKET.unpack_from(frame, at - _TICKET.size)
    while at < len(frame):
        begin = at + _SIZE.size
        size = _SIZE.unpack_from(frame, at)[0] if begin <= len(frame) else -1
        at = begin + size
        if size < 0 or at > len(frame):
            raise ProtocolError("an answer to a batch read ends within an entry")
        bodies.append(frame[begin:at])
    return BatchAnswer(code, ledger, first, ticket, bodies)


def stored_entry(data: bytes) -> tuple[int, int] | None:
    """Ledger and entry if the bytes are exactly one answer to a successful add, the most frequent case."""
    if len(data) != _ANSWER.size:
        return None
    size, header, code, ledger, entry = _ANSWER.unpack(data)
    is_stored = size == _ANSWER.size - _LENGTH.size and header == _ADD_HEADER and not code
    return (ledger, entry) if is_stored else None


def _operation_of(frame: bytes) -> tuple[Operation, Flag]:
    if len(frame) < 4:
        raise ProtocolError(f"a frame of {len(frame)} bytes has no header")
    (header,) = _LENGTH.unpack_from(frame)
    version, operation, flags = header >> 24, header >> 16 & 0xFF, header & 0xFFFF
    if version != VERSION:
        raise ProtocolError(f"version {version} of the bookie protocol; only version {VERSION} is supported")
    known = _OPERATIONS.get(operation)
    if known is None:
        raise ProtocolError(f"unknown operation {operation} of the bookie protocol")
    return known, Flag(flags)


class FrameReader:
    """Splits a byte stream into frames. Buffers at most one unfinished frame, in the received pieces."""

    def __init__(self, frame_bytes_max: int = FRAME_BYTES_MAX) -> None:
        self._pieces: list[bytes] = []
        # Buffered bytes, and the bytes needed until the first frame, or its length word, is complete.
        self.buffered_bytes = 0
        self._needed = _LENGTH.size
        self._max = frame_bytes_max - _LENGTH.size

    def feed(self, data: bytes) -> Iterable[bytes]:
        """The frames that are now complete, without length words. Raises ProtocolError if one is too long."""
        if self._pieces:
            self.buffered_bytes += len(data)
            self._pieces.append(data)
            if self.buffered_bytes < self._needed:
                return ()
            data = b"".join(self._pieces)
            self._pieces = []
        if len(data) >= _LENGTH.size:
            (size,) = _LENGTH.unpack_from(data)
            if size + _LENGTH.size == len(data) and size <= self._max:
                # The most frequent case: exactly one frame.
                self.buffered_bytes = 0
                return (data[_LENGTH.size :],)
        return self._cut(data)

    def _cut(self, data: bytes) -> Iterator[bytes]:
        at, needed = 0, _LENGTH.size
        try:
            while len(data) - at >= _LENGTH.size:
                (size,) = _LENGTH.unpack_from(data, at)
                if size > self._max:
                    raise ProtocolError(f"a frame of {size} bytes; the maximum is {self._max}")
                needed = _LENGTH.size + size
                if len(data) - at < needed:
                    break
                begin, at, needed = at + _LENGTH.size, at + needed, _LENGTH.size
                yield data[begin:at]
        finally:
            self.buffered_bytes = len(data) - at
            self._needed = needed
            self._pieces = [data[at:]] if at < len(data) else []
