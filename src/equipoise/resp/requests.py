"""Turn a client's bytes into commands, whatever the client sends and however the network splits it.

Two parsers share the work. hiredis parses ordinary chunks at C speed. It reserves memory for whatever count a
header announces, though, and accepts more than a request may be, so a chunk is given to it only when no header
in it can announce much, and what it returns is checked by length: the canonical encoding of the commands must
be as long as the bytes they came from. Whatever fails a check goes to the exact parser in `exact.py`, which
decides slowly and says why in Redis's words. A parser never keeps state between chunks; an unfinished frame is
kept as bytes and parsed again when it can be complete.

Always true:
    the same bytes give the same commands and the same error, however they are split;
    memory held is at most the input limit, whatever a header announces;
    after an error nothing more comes out.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple

import hiredis

from equipoise.resp.exact import Incomplete, RequestLimits, parse_request

Command = list[bytes]

# A count of five digits or more is above any setting of the argument limit, and a length of eight digits is
# above the ceiling of the payload. The bytes may also be somebody's payload: the exact parser finds out.
_ANNOUNCES_MUCH = re.compile(rb"\*[0-9]{5}|\$[0-9]{8}")
_PUBLISH = (b"PUBLISH", b"publish", b"Publish")
_BYTES_ONLY = {bytes}
_ARRAY_MARK = b"*"[0]
# Parsing a short batch command by command is as fast as looking whether it is all of one kind.
_UNIFORM_MIN = 3


class PublishRun(NamedTuple):
    """Consecutive PUBLISH commands to one topic: the hub's hot path handles them as one."""

    topic: bytes
    payloads: Sequence[bytes]


class RequestReader:
    """One connection's input. `feed` returns what is complete; `error` is set once bytes are not RESP."""

    __slots__ = ("_needed_bytes", "_unfinished", "_unfinished_bytes", "error", "limits")

    def __init__(self, limits: RequestLimits) -> None:
        # May be replaced between calls: a connection gets wider limits once it has authenticated.
        self.limits = limits
        self.error: str | None = None
        self._unfinished: list[bytes] | None = None
        self._unfinished_bytes = 0
        self._needed_bytes = 0

    @property
    def buffered_bytes(self) -> int:
        return self._unfinished_bytes

    def feed(self, data: bytes) -> PublishRun | list[Command]:
        if self._unfinished is not None:
            self._unfinished.append(data)
            self._unfinished_bytes += len(data)
            if self._unfinished_bytes < self._needed_bytes:
                return []
            data = b"".join(self._unfinished)
            self._unfinished = None
            self._unfinished_bytes = 0
        if data[:1] != b"*" or _ANNOUNCES_MUCH.search(data) is not None:
            return self._parse_exactly(data, 0, [])
        reader = hiredis.Reader()
        reader.feed(data)
        try:
            commands: list[Command] = list(iter(reader.gets, False))
        except hiredis.ProtocolError:
            return self._parse_exactly(data, 0, [])
        if len(data) > self.limits.payload_bytes_max:
            return self._parse_exactly(data, 0, [])
        return self._checked(data, commands)

    def _checked(self, data: bytes, commands: list[Command]) -> PublishRun | list[Command]:
        run = publish_run(commands)
        if run is not None:
            size = _run_size(run)
            if size == len(data):
                return run
            if size < len(data) and data[size] == _ARRAY_MARK:
                rest = self._parse_exactly(data, size, [])
                return run if not rest else commands + rest
            return self._parse_exactly(data, 0, [])
        if not commands or not _plain(commands) or _wire_size(commands) != len(data):
            return self._parse_exactly(data, 0, [])
        if max(map(len, commands)) > self.limits.args_max:
            return self._parse_exactly(data, 0, [])
        return commands

    def _parse_exactly(self, data: bytes, start: int, commands: list[Command]) -> list[Command]:
        """Parse from `start`, keeping an unfinished frame for later and stopping at the first error."""
        end = len(data)
        while start < end and self.error is None:
            outcome = parse_request(data, start, self.limits)
            if isinstance(outcome, Incomplete):
                self._unfinished = [data[start:]]
                self._unfinished_bytes = end - start
                self._needed_bytes = outcome.needed_bytes
                break
            if isinstance(outcome, str):
                self.error = outcome
                break
            command, start = outcome
            if command:
                commands.append(command)
        return commands


def publish_run(commands: list[Command]) -> PublishRun | None:
    """The commands as one run, if all of them are PUBLISH to one topic. Loops in C throughout."""
    if len(commands) < _UNIFORM_MIN or any_but_three(commands):
        return None
    verbs, topics, payloads = zip(*commands, strict=True)
    count, topic = len(verbs), topics[0]
    if (
        verbs[0] in _PUBLISH
        and verbs.count(verbs[0]) == count
        and topics.count(topic) == count
        and type(topic) is bytes
        and set(map(type, payloads)) == _BYTES_ONLY
    ):
        return PublishRun(topic, payloads)
    return None


def any_but_three(commands: list[Command]) -> bool:
    """hiredis gives None for a null array, so lengths cannot simply be taken."""
    try:
        return set(map(len, commands)) != {3}
    except TypeError:
        return True


def _plain(commands: list[Command]) -> bool:
    """Flat lists of byte strings and nothing else: hiredis would also let integers and nested arrays pass."""
    if set(map(type, commands)) != {list}:
        return False
    return set(map(type, chain.from_iterable(commands))) <= _BYTES_ONLY


def _run_size(run: PublishRun) -> int:
    """Bytes of the run in canonical encoding."""
    topic, payloads = run
    fixed = len(b"*3\r\n$7\r\nPUBLISH\r\n") + _bulk_size(len(topic))
    lengths = list(map(len, payloads))
    first = lengths[0]
    if lengths.count(first) == len(lengths):
        return len(lengths) * (fixed + _bulk_size(first))
    return len(lengths) * fixed + sum(map(_bulk_size, lengths))


def _wire_size(commands: list[Command]) -> int:
    """Bytes of the commands in canonical encoding, the only one that hiredis and Redis accept."""
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
