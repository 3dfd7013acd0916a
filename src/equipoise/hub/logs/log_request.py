"""One client's command on one log, in the form sent to the owner of the log.

The client's hub has checked the permissions of the client.
"""

from __future__ import annotations

import msgspec

from equipoise.errors import ProtocolError
from equipoise.log.call import LogCall, integer_of
from equipoise.log.commands import LOG_COMMANDS
from equipoise.log.entries import body_of, payload_of
from equipoise.log.errors import LogCommandError
from equipoise.log.ids import spell_id
from equipoise.log.read import assemble, parse_read, resolve, serve
from equipoise.log.topic_log import TopicLog
from equipoise.resp.replies import bulk

__all__ = [
    "LAST_ID",
    "PUBLISH",
    "PUBLISHES",
    "PUBLISH_NUMBERED",
    "PUBLISH_POSITIONED",
    "SINCE",
    "LogRequest",
    "MessagesSince",
    "pack_replies",
    "pack_requests",
    "unpack_replies",
    "unpack_requests",
    "unpack_since",
]

# The last id of a log, for reads that begin after it.
LAST_ID = "last-id"
# The messages after a number: for hubs whose subscribers miss some, and for clients that reconnect.
SINCE = "eq.since"
# The most bytes of entries in one reply to SINCE; a reply has at least one message.
_SINCE_BYTES = 1024 * 1024
# Publishes to a durable topic: see durable_topic.
PUBLISH, PUBLISH_POSITIONED, PUBLISH_NUMBERED = "publish", "eq.publish", "eq.append"
PUBLISHES = frozenset((PUBLISH, PUBLISH_POSITIONED, PUBLISH_NUMBERED))
_NAMES = frozenset(LOG_COMMANDS) | PUBLISHES | {"xread", "xreadgroup", "eq.readgroup", LAST_ID, SINCE}
_READS = frozenset(
    (
        "xlen",
        "xrange",
        "xrevrange",
        "xread",
        "xinfo|stream",
        "xinfo|groups",
        "xinfo|consumers",
        "xpending",
        "eq.group|show",
        "exists",
    )
) | {"type", "eq.steps", LAST_ID, SINCE}


# All others leave a log that does not exist as it is.
_CREATE = PUBLISHES | {"xadd", "xsetid", "xcfgset", "xgroup|create", "eq.group|attach"}


class MessagesSince(msgspec.Struct, frozen=True, array_like=True):
    """The reply to SINCE: messages with their numbers; other numbers up to `reaches` no longer exist."""

    reaches: int
    messages: list[tuple[int, bytes]]


class LogRequest(msgspec.Struct, frozen=True, array_like=True):
    """`name`: a key of LOG_COMMANDS, a read that does not block (`xread` and similar), a publish, LAST_ID or SINCE."""

    name: str
    words: list[bytes]
    # The RESP version of the reader.
    proto: int = 2
    # The error if the log does not exist and the client may not create it; empty: the client may.
    refusal: str = ""
    # Whether the request belongs to the same transaction as the request before it.
    is_joined: bool = False

    @property
    def is_read(self) -> bool:
        """Whether the request changes nothing, so that it may be run twice."""
        return self.name in _READS

    @property
    def may_create(self) -> bool:
        """Whether the request may create the log."""
        return self.name in _CREATE

    @property
    def size(self) -> int:
        return sum(map(len, self.words))

    def run(self, log: TopicLog, now_ms: int) -> bytes:
        """The reply, to be sent once the changes before it are committed. Raises LogCommandError."""
        if self.name == LAST_ID:
            return bulk(spell_id(log.last))
        if self.name == SINCE:
            return _encode(_messages_since(log, integer_of(self.words[2])))
        if self.name in ("xread", "xreadgroup", "eq.readgroup"):
            return self._read(log, now_ms)
        if self.refusal and not log.exists:
            raise LogCommandError(self.refusal)
        return LOG_COMMANDS[self.name](log, LogCall(self.words, now_ms, self.proto))

    def _read(self, log: TopicLog, now_ms: int) -> bytes:
        read = parse_read(self.words)
        key, start = read.keys[0], read.starts[0]
        resolve(log, read, key, start)
        pieces = serve(log, read, key, now_ms, self.proto)
        return assemble([] if pieces is None else [(key, pieces)], self.proto)


def _messages_since(log: TopicLog, number: int) -> MessagesSince:
    found: list[tuple[int, bytes]] = []
    left = _SINCE_BYTES
    for n, piece in log.entries.behind(number):
        left -= len(piece)
        if left < 0 and found:
            return MessagesSince(found[-1][0], found)
        found.append((n, payload_of(body_of(piece))))
    return MessagesSince(log.entries.number, found)


_encode = msgspec.msgpack.Encoder().encode
_requests = msgspec.msgpack.Decoder(list[LogRequest])
_replies = msgspec.msgpack.Decoder(list[bytes])
_since = msgspec.msgpack.Decoder(MessagesSince)


def pack_requests(requests: list[LogRequest]) -> bytes:
    return _encode(requests)


def unpack_requests(data: bytes) -> list[LogRequest]:
    """Raises ProtocolError."""
    try:
        found = _requests.decode(data)
    except msgspec.MsgspecError as problem:
        raise ProtocolError(f"EQ.L.CALL without a list of commands: {problem}") from problem
    for request in found:
        if request.name not in _NAMES:
            raise ProtocolError(f"EQ.L.CALL with an unknown command: {request.name[:32]!r}")
    return found


def unpack_since(reply: bytes) -> MessagesSince | None:
    """None: the reply is an error."""
    return None if reply[:1] == b"-" else _since.decode(reply)


def pack_replies(replies: list[bytes]) -> bytes:
    return _encode(replies)


def unpack_replies(data: bytes) -> list[bytes]:
    """Raises ProtocolError."""
    try:
        return _replies.decode(data)
    except msgspec.MsgspecError as problem:
        raise ProtocolError(f"EQ.L.ANSWER without a list of replies: {problem}") from problem
