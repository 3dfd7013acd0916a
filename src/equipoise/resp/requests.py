"""Turn a client's bytes into commands, whatever the client sends and however the network splits it.

Two parsers share the work. hiredis parses ordinary chunks at C speed. It reserves memory for whatever count a
header announces, though, and accepts more than a request may be, so a chunk is given to it only when no header
in it can announce much, and what it returns is checked by length: the canonical encoding of the commands must
be as long as the bytes they came from. Length suffices because every other way to spell a byte string is shorter,
but for one of RESP3; a chunk that holds a byte with which RESP3's own types begin is compared byte by byte.
Whatever fails a check goes to the exact parser in `exact.py`, which decides slowly and says why in Redis's words.
A parser never keeps state between chunks; an unfinished frame is kept as bytes and parsed again when it can be
complete.

Always true:
    the same bytes give the same commands and the same error, however they are split;
    memory held is at most the input limit, whatever a header announces;
    after an error nothing more comes out.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import chain
from typing import Any, NamedTuple

import hiredis

from equipoise.resp.exact import Incomplete, RequestLimits, parse_request

Command = list[bytes]

# A count of five digits or more is above any setting of the argument limit. The bytes may also be somebody's
# payload: the exact parser finds out. A pattern that begins with a literal is searched several times as fast.
_ANNOUNCES_MUCH = re.compile(rb"\*[0-9]{5}")
# RESP3's containers beside the array, and its strings with a type. hiredis makes the same lists and bytes of them.
_PUSH, _SET, _MAP, _ATTRIBUTE, _VERBATIM = b">~%|="
_CONTAINS_MUCH = [(mark, re.compile(rb"%c[0-9]{5}" % mark).search) for mark in b">~%"] + [
    (_ATTRIBUTE, re.compile(rb"\|[0-9]{5}").search)
]
_PUBLISH = (b"PUBLISH", b"publish", b"Publish")
_PUBLISH_SIZE = len(b"*3\r\n$7\r\nPUBLISH\r\n")
_BYTES_ONLY = {bytes}
_ARRAY_MARK = b"*"[0]


class Publishes(NamedTuple):
    """Nothing but PUBLISH commands, as two columns: the hub's hot path takes them without looking at each."""

    topics: Sequence[bytes]
    payloads: Sequence[bytes]


class RequestReader:
    """One connection's input. `feed` returns what is complete; `error` is set once bytes are not RESP."""

    __slots__ = ("_needed_bytes", "_unfinished", "buffered_bytes", "error", "limits")

    def __init__(self, limits: RequestLimits) -> None:
        # May be replaced between calls: a connection gets wider limits once it has authenticated.
        self.limits = limits
        self.error: str | None = None
        self._unfinished: list[bytes] | None = None
        # Of the unfinished frame.
        self.buffered_bytes = 0
        self._needed_bytes = 0

    def feed(self, data: bytes) -> Publishes | list[Command]:
        if self._unfinished is not None:
            self._unfinished.append(data)
            self.buffered_bytes += len(data)
            if self.buffered_bytes < self._needed_bytes:
                return []
            data = b"".join(self._unfinished)
            self._unfinished = None
            self.buffered_bytes = 0
        if (
            data[:1] != b"*"
            or len(data) > self.limits.payload_bytes_max
            or _ANNOUNCES_MUCH.search(data) is not None
        ):
            return self._parse_exactly(data, 0)
        if _PUSH in data or _SET in data or _MAP in data or _ATTRIBUTE in data or _VERBATIM in data:
            return self._parse_compared(data)
        reader = hiredis.Reader()
        reader.feed(data)
        gets = reader.gets
        try:
            command = gets()
            following = gets()
            if following is False:
                return self._single(data, command)
            commands: list[Command] = [command, following, *iter(gets, False)]
        except hiredis.ProtocolError:
            return self._parse_exactly(data, 0)
        publishes = _as_publishes(commands)
        if publishes is None:
            return self._checked(data, commands)
        size = _publishes_size(publishes)
        if size == len(data):
            return publishes
        if size > len(data) or data[size] != _ARRAY_MARK:
            return self._parse_exactly(data, 0)
        rest = self._parse_exactly(data, size)
        return [*commands, *rest] if rest else publishes

    def _single(self, data: bytes, command: Any) -> Publishes | list[Command]:
        """A client that waits for each reply sends one command at a time: looping over one costs too much."""
        if type(command) is list and len(command) == 3:
            verb, topic, payload = command
            if verb == b"PUBLISH" and type(topic) is bytes and type(payload) is bytes:
                size = _PUBLISH_SIZE + _bulk_size(len(topic)) + _bulk_size(len(payload))
                if size == len(data):
                    return Publishes((topic,), (payload,))
        return self._checked(data, [command])

    def _checked(self, data: bytes, commands: list[Command]) -> list[Command]:
        # An empty command asks for nothing and must not come out; it is rare enough for the exact parser.
        if (
            not all(commands)
            or not _are_flat(commands)
            or max(map(len, commands)) > self.limits.args_max
            or _wire_size(commands) != len(data)
        ):
            return self._parse_exactly(data, 0)
        return commands

    def _parse_compared(self, data: bytes) -> Publishes | list[Command]:
        """For data with a byte that may begin a type of RESP3: most likely it stands in a payload."""
        if any(mark in data and finds(data) for mark, finds in _CONTAINS_MUCH):
            return self._parse_exactly(data, 0)
        reader = hiredis.Reader()
        reader.feed(data)
        try:
            commands: list[Command] = list(iter(reader.gets, False))
            encoded = b"".join(map(_encode, commands))
        except (hiredis.ProtocolError, TypeError):
            # TypeError: a list as the key of a map; or an element that is not a byte string.
            return self._parse_exactly(data, 0)
        if not all(commands) or max(map(len, commands), default=0) > self.limits.args_max:
            return self._parse_exactly(data, 0)
        if not data.startswith(encoded):
            return self._parse_exactly(data, 0)
        rest = self._parse_exactly(data, len(encoded))
        return [*commands, *rest] if rest else _as_publishes(commands) or commands

    def _parse_exactly(self, data: bytes, start: int) -> list[Command]:
        """Parse from `start`, keeping an unfinished frame for later and stopping at the first error."""
        commands: list[Command] = []
        end = len(data)
        while start < end and self.error is None:
            outcome = parse_request(data, start, self.limits)
            if isinstance(outcome, Incomplete):
                self._unfinished = [data[start:]]
                self.buffered_bytes = end - start
                self._needed_bytes = outcome.needed_bytes
                break
            if isinstance(outcome, str):
                self.error = outcome
                break
            command, start = outcome
            if command:
                commands.append(command)
        return commands


def _as_publishes(commands: list[Command]) -> Publishes | None:
    """The commands as columns, if all of them are PUBLISH. Loops in C throughout."""
    try:
        verbs, topics, payloads = zip(*commands, strict=True)
    except (TypeError, ValueError):
        # Not three words each; or no list at all, which is how hiredis returns a null array.
        return None
    verb = verbs[0]
    if (
        verb in _PUBLISH
        and verbs.count(verb) == len(verbs)
        and set(map(type, payloads)) == _BYTES_ONLY
        and set(map(type, topics)) == _BYTES_ONLY
    ):
        return Publishes(topics, payloads)
    return None


def _encode(command: Command) -> bytes:
    """The command's canonical encoding. Raises TypeError if it is not a sequence of byte strings."""
    bulks = [b"$%d\r\n%b\r\n" % (len(argument), argument) for argument in command]
    return b"*%d\r\n%b" % (len(bulks), b"".join(bulks))


def _are_flat(commands: list[Command]) -> bool:
    """Lists of byte strings and nothing else: hiredis would also let integers and nested arrays pass."""
    if set(map(type, commands)) != {list}:
        return False
    return set(map(type, chain.from_iterable(commands))) <= _BYTES_ONLY


def _publishes_size(publishes: Publishes) -> int:
    """Bytes of the commands in canonical encoding, the only one that hiredis and Redis accept."""
    topics, payloads = publishes
    return _PUBLISH_SIZE * len(topics) + _bulks_size(topics) + _bulks_size(payloads)


def _bulks_size(column: Sequence[bytes]) -> int:
    lengths = list(map(len, column))
    first = lengths[0]
    if lengths.count(first) == len(lengths):
        return len(lengths) * _bulk_size(first)
    return sum(map(_bulk_size, lengths))


def _wire_size(commands: list[Command]) -> int:
    size = 0
    for command in commands:
        size += 3 + len(str(len(command)))
        for argument in command:
            size += _bulk_size(len(argument))
    return size


def _bulk_size(length: int) -> int:
    if length < 10:
        return length + 6
    if length < 100:
        return length + 7
    return length + 5 + len(str(length))
