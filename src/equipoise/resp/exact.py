"""Parse one request at a time with Redis's limits, inline form and error texts.

The slow parser of all unusual input: first bytes that are not `*`, headers with large counts, unfinished frames and
garbage. It never allocates from an announced count, and it returns the least size of an unfinished frame, so that a
large payload in many chunks is parsed once and not once per chunk.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

# Redis names POST and Host: as signs of a browser being used against it; the rest is what browsers also send.
_HTTP_VERBS = frozenset((b"POST", b"PUT", b"HEAD", b"OPTIONS", b"CONNECT", b"PATCH", b"HOST:"))
# The first bytes of a TLS handshake: a record of that type, version 3.
_TLS_HELLO = b"\x16\x03"
_ESCAPES = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"b": b"\b", b"a": b"\a"}
_SPACES = b" \t\n\r\v\f\0"


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """Limits of one request. `is_authenticated` selects the wording of Redis's errors."""

    args_max: int
    payload_bytes_max: int
    header_bytes_max: int
    inline_bytes_max: int
    is_authenticated: bool = True

    def objection(self, command: Sequence[bytes]) -> str | None:
        """The error of a command that was read before its client lost its login, None if there is none."""
        if len(command) > self.args_max:
            return "Protocol error: unauthenticated multibulk length"
        if max(map(len, command)) > self.payload_bytes_max:
            return "Protocol error: unauthenticated bulk length"
        return None


@dataclass(frozen=True, slots=True)
class _Header:
    """A count or length line: its number, None if it is not a number, and the index after it."""

    number: int | None
    end: int


class _TooLong:
    """A header line without an end."""


@dataclass(frozen=True, slots=True)
class Incomplete:
    """An unfinished frame. It cannot be complete before it has `needed_bytes`, counted from its start.

    `words` are the complete words, up to the index `at`, and `words_left` is how many follow: parsed words are not
    parsed again.
    """

    needed_bytes: int
    words: list[bytes]
    words_left: int
    at: int


Outcome = tuple[list[bytes], int] | Incomplete | str


def parse_request(data: bytes, start: int, limits: RequestLimits) -> Outcome:
    """The request at `start` and the index after it; or that it is unfinished; or what is wrong with it.

    An empty command (a blank line, `*0`, `*-1`) is a request without effect.
    """
    if data[start : start + 1] != b"*":
        return _parse_inline(data, start, limits)
    header = _read_header(data, start, limits)
    if header is None:
        return Incomplete(len(data) - start + 1, [], 0, start)
    if not isinstance(header, _Header):
        return "Protocol error: too big mbulk count string"
    count, at = header.number, header.end
    if count is None or count > limits.args_max:
        if count is not None and not limits.is_authenticated:
            return "Protocol error: unauthenticated multibulk length"
        return "Protocol error: invalid multibulk length"
    return parse_words(data, at, [], count, limits, start=start)


def parse_words(
    data: bytes, at: int, words: list[bytes], words_left: int, limits: RequestLimits, *, start: int = 0
) -> Outcome:
    """Continue a request that began at `start`: some words are parsed, and `words_left` follow from `at`."""
    while words_left > 0:
        bulk = _parse_bulk(data, at, limits)
        if isinstance(bulk, str):
            return bulk
        if isinstance(bulk, int):
            return Incomplete(bulk - start, words, words_left, at)
        word, at = bulk
        words.append(word)
        words_left -= 1
    return words, at


def _parse_bulk(data: bytes, at: int, limits: RequestLimits) -> tuple[bytes, int] | int | str:
    """The word at `at` and the index after it; or the least end of an unfinished word; or the error's text."""
    mark = data[at : at + 1]
    if not mark:
        return at + 1
    # Redis waits for the whole line before it rejects its first byte; the first byte is enough.
    if mark != b"$":
        return f"Protocol error: expected '$', got '{mark.decode('latin-1')}'"
    header = _read_header(data, at, limits)
    if header is None:
        return len(data) + 1
    if not isinstance(header, _Header):
        return "Protocol error: too big bulk count string"
    length, body = header.number, header.end
    if length is None or length < 0 or length > limits.payload_bytes_max:
        if length is not None and length > 0 and not limits.is_authenticated:
            return "Protocol error: unauthenticated bulk length"
        return "Protocol error: invalid bulk length"
    # As in Redis and hiredis, the two bytes after the payload are skipped unread.
    end = body + length + 2
    if end > len(data):
        return end
    return data[body : body + length], end


def _read_header(data: bytes, at: int, limits: RequestLimits) -> _Header | _TooLong | None:
    """The line that begins with the type byte at `at`; None while it is unfinished.

    Its number is None where Redis rejects it: only an optional minus and digits without leading zeros are valid
    (`int` would also accept `1_000`, blanks and other scripts' digits).
    """
    stop = at + limits.header_bytes_max
    end = data.find(b"\r", at, stop)
    if end < 0:
        return _TooLong() if len(data) >= stop else None
    if end + 1 >= len(data):
        return None
    digits = data[at + 1 : end]
    magnitude = digits[1:] if digits[:1] == b"-" else digits
    if not (magnitude.isdigit() and magnitude.isascii()) or (magnitude[:1] == b"0" and digits != b"0"):
        return _Header(None, end + 2)
    return _Header(int(digits), end + 2)


def _parse_inline(data: bytes, start: int, limits: RequestLimits) -> Outcome:
    if data.startswith(_TLS_HELLO, start):
        return "Protocol error: TLS handshake on a port without TLS"
    end = data.find(b"\n", start, start + limits.inline_bytes_max)
    if end < 0:
        if len(data) - start >= limits.inline_bytes_max:
            return "Protocol error: too big inline request"
        return Incomplete(len(data) - start + 1, [], 0, start)
    line = data[start:end].removesuffix(b"\r")
    arguments = split_arguments(line)
    if arguments is None:
        return "Protocol error: unbalanced quotes in request"
    if len(arguments) > limits.args_max:
        return "Protocol error: too big inline request"
    if arguments and (arguments[0].upper() in _HTTP_VERBS or arguments[-1].startswith(b"HTTP/")):
        return "Protocol error: this is a pub/sub hub, not an HTTP server"
    return arguments, end + 1


def split_arguments(line: bytes) -> list[bytes] | None:
    """Split a typed line as redis-cli and Redis do; None if a quote is not closed, or not followed by a blank."""
    arguments: list[bytes] = []
    at, end = 0, len(line)
    while True:
        while at < end and line[at] in _SPACES:
            at += 1
        if at >= end:
            return arguments
        word = bytearray()
        while at < end and line[at] not in _SPACES:
            quote = line[at : at + 1]
            if quote not in (b'"', b"'"):
                word += quote
                at += 1
                continue
            closed = _read_quoted(line, at + 1, quote, word)
            if closed is None or (closed < end and line[closed] not in _SPACES):
                return None
            at = closed
        arguments.append(bytes(word))


def _read_quoted(line: bytes, at: int, quote: bytes, word: bytearray) -> int | None:
    """Append the quoted text to `word`; the index after the closing quote, or None if there is none."""
    end = len(line)
    while at < end:
        here = line[at : at + 1]
        if here == quote:
            return at + 1
        following = line[at + 1 : at + 2]
        if here == b"\\" and quote == b'"' and following == b"x" and _is_hex(line[at + 2 : at + 4]):
            word.append(int(line[at + 2 : at + 4], 16))
            at += 4
        elif here == b"\\" and following and (quote == b'"' or following == b"'"):
            word += _ESCAPES.get(following, following) if quote == b'"' else following
            at += 2
        else:
            word += here
            at += 1
    return None


def _is_hex(digits: bytes) -> bool:
    return len(digits) == 2 and all(digit in b"0123456789abcdefABCDEF" for digit in digits)
