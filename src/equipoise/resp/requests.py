"""Parse a client's bytes into commands, for any input and any split by the network.

The compiled part reads a chunk that begins with PUBLISH, where it is built (`runs`). Two parsers read all other
chunks. hiredis parses ordinary chunks at C speed. But it allocates memory for any count that a header announces, and
it accepts more than a valid request. So it gets a chunk only if no header in it announces a large count, and its
result must match the bytes: a request has one encoding. If a chunk holds whole commands only, comparing lengths is
enough, because every other encoding of a byte string is shorter, unless the chunk has a type byte of RESP3; otherwise
the encodings are compared. If this fails, the exact parser in `exact.py` decides slowly, with Redis's error texts.
A parser keeps no state between chunks; an unfinished frame is kept as bytes and parsed again when it can be complete.

Always true:
    the same bytes give the same commands and the same error, however they are split;
    memory held is at most the input limit, whatever a header announces;
    after an error no more commands are returned.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

import hiredis

from equipoise.resp.exact import Incomplete, RequestLimits, parse_request, parse_words
from equipoise.resp.replies import bulk_size, bulks_size, plain_encoder, spell, spelled_size
from equipoise.resp.runs import read_publishes

Command = list[bytes]

# A count of five digits or more is above any setting of the argument limit. The bytes may also be in a client's
# payload: the exact parser decides. A pattern that begins with a literal is searched several times as fast.
_LARGE_ARRAY = re.compile(rb"\*[0-9]{5}").search
_COUNT_DIGITS = 5
# RESP3's containers beside the array, and its verbatim string; hiredis turns them into lists and bytes, too.
_PUSH, _SET, _MAP, _ATTRIBUTE, _VERBATIM = b">~%|="
_LARGE_CONTAINER = re.compile(rb"[>~%|][0-9]{5}").search
_PUBLISH_SIZE = len(b"*3\r\n$7\r\nPUBLISH\r\n")
# The headers of a PUBLISH that is alone in its chunk.
_LONE_PUBLISH = re.compile(rb"\*3\r\n\$7\r\nPUBLISH\r\n\$(0|[1-9][0-9]{0,3})\r\n").match
_NEXT_WORD = re.compile(rb"\r\n\$(0|[1-9][0-9]{0,6})\r\n").match
# The headers of a request of few words that is alone in its chunk.
_FEW_WORDS = re.compile(rb"\*([1-9])\r\n").match
_WORD = re.compile(rb"\$(0|[1-9][0-9]{0,4})\r\n").match
# Above this copying weighs more than parsing.
_LONE_BYTES_MAX = 16 * 1_024
# The exact parser takes less than a millisecond for this much of any input, and a tenth of one for so many short
# requests; the rest is left for the next call, so that other connections do not wait for long.
_EXACT_BYTES = 2 * 1024
_EXACT_REQUESTS = 64
# Unfinished input is kept in blocks of this size.
_BLOCK_BYTES = 64 * 1024
# A request with this many words is not parsed from its beginning again.
_WORDS_BEGUN = 32
# Commands behind a login are read under the limits of the new user.
_LOGINS = (b"AUTH", b"HELLO")
# hiredis moves the rest of its buffer for every kilobyte it has parsed, so it gets its input in slices.
_SLICE_BYTES = 16 * 1024


class Publishes(NamedTuple):
    """Only PUBLISH commands, as two columns: the hub's hot path processes them without a loop over commands."""

    topics: Sequence[bytes]
    payloads: Sequence[bytes]


class RequestReader:
    """One connection's input.

    `feed` returns the complete commands, or as many as take little time: then `has_more` is true. `error` is set
    once bytes are not RESP.
    """

    __slots__ = (
        "_begin",
        "_begun",
        "_needed_bytes",
        "_unfinished",
        "buffered_bytes",
        "error",
        "limits",
        "unfinished",
    )

    def __init__(self, limits: RequestLimits) -> None:
        # May be replaced between calls: a connection gets wider limits once it has authenticated.
        self.limits = limits
        self.error: str | None = None
        # Blocks of up to _BLOCK_BYTES: a list of small pieces would take many times the memory of the pieces, and one
        # growing buffer would be copied whenever it has to move.
        self._unfinished: list[bytes | bytearray] | None = None
        # Where it begins in the first block: what is left for the next call is copied only if that frees half of it.
        self._begin = 0
        # Of an unfinished request of many words: its parsed words, how many are left, and their size.
        self._begun: tuple[list[bytes], int, int] | None = None
        # The size of the unfinished request; and the count of such requests so far, which distinguishes two of them.
        self.buffered_bytes = 0
        self.unfinished = 0
        self._needed_bytes = 0

    def feed(self, data: bytes) -> Publishes | list[Command]:
        is_continued = self._unfinished is not None
        if self._unfinished is not None:
            self._append(data)
            self.buffered_bytes += len(data)
            if self.buffered_bytes < self._needed_bytes:
                return []
            data, begin = self._take_unfinished()
            data = data[begin:]
            if self._begun is not None:
                return self._finish_begun(data)
        if read_publishes is not None and (found := read_publishes(data, self.limits.payload_bytes_max)):
            return self._behind_publishes(found, data)
        if len(data) <= _LONE_BYTES_MAX and len(data) <= self.limits.payload_bytes_max:
            lone = _lone_publish(data)
            if lone is not None:
                return lone
            words = _lone_command(data)
            if words is not None and len(words) <= self.limits.args_max:
                return [words]
        is_odd = _PUSH in data or _VERBATIM in data or _MAP in data or _ATTRIBUTE in data or _SET in data
        if (
            data[:1] != b"*"
            or len(data) > self.limits.payload_bytes_max
            or _announces_much(data)
            or (is_odd and _LARGE_CONTAINER(data))
        ):
            return self._parse_exactly(data, 0, is_continued=is_continued)
        try:
            commands = _parse_fast(data)
            publishes = _as_publishes(commands)
            size = spelled_size(commands) if publishes is None else _publishes_size(publishes)
        except (hiredis.ProtocolError, TypeError):
            # TypeError: an element that is not a byte string, or a map with a list as a key.
            return self._parse_exactly(data, 0, is_continued=is_continued)
        is_told = size == len(data) and not is_odd
        if is_told and publishes is not None:
            return publishes
        if publishes is None and not self._are_permitted(commands):
            return self._parse_exactly(data, 0, is_continued=is_continued)
        if not is_told:
            spelled = b"".join(map(spell, commands)) if publishes is None else _spell_publishes(publishes)
            if not data.startswith(spelled):
                return self._parse_exactly(data, 0, is_continued=is_continued)
            rest = self._parse_exactly(data, size, is_continued=is_continued and not size)
            if rest:
                return commands + rest
        return commands if publishes is None else publishes

    def _behind_publishes(
        self, found: tuple[Sequence[bytes], Sequence[bytes], int], data: bytes
    ) -> Publishes | list[Command]:
        """Parse the input after the publishes at the beginning."""
        topics, payloads, size = found
        rest = self._parse_exactly(data, size) if size < len(data) else []
        if not rest:
            return Publishes(topics, payloads)
        return [[b"PUBLISH", *message] for message in zip(topics, payloads, strict=True)] + rest

    def feed_exactly(self, data: bytes) -> list[Command]:
        """Like `feed`, but the bytes of a client without login are parsed only up to a command that may log it in."""
        is_continued = self._unfinished is not None
        begin = 0
        if self._unfinished is not None:
            if data:
                self._append(data)
            data, begin = self._take_unfinished()
            if self._begun is not None:
                return self._finish_begun(data[begin:])
        return self._parse_exactly(data, begin, is_continued=is_continued)

    @property
    def has_more(self) -> bool:
        """Whether complete requests were left for the next call, which needs no further data."""
        return self.buffered_bytes > 0 and self._needed_bytes == 0

    def _are_permitted(self, commands: list[Command]) -> bool:
        """An empty command has no effect and must not be returned; the exact parser omits it."""
        return all(commands) and max(map(len, commands), default=0) <= self.limits.args_max

    def _parse_exactly(self, data: bytes, start: int, *, is_continued: bool = False) -> list[Command]:
        """Parse from `start`, keep unfinished or excess input for later, and stop at the first error.

        `is_continued`: the data begins with the kept input.
        """
        began = start
        commands: list[Command] = []
        end, enough_at = len(data), start + _EXACT_BYTES
        for _ in range(_EXACT_REQUESTS):
            if start >= enough_at or start >= end:
                break
            outcome = parse_request(data, start, self.limits)
            if isinstance(outcome, Incomplete):
                self.unfinished += start > began or not is_continued
                self._keep_unfinished(data, start, outcome)
                return commands
            if isinstance(outcome, str):
                self.error = outcome
                return commands
            command, start = outcome
            if command:
                commands.append(command)
                if not self.limits.is_authenticated and command[0].upper() in _LOGINS:
                    break
        if start < end:
            self.unfinished += 1
            if 2 * start > end:
                self._keep(data[start:], 0)
            else:
                self._keep(data, 0)
                self._begin = start
                self.buffered_bytes -= start
        return commands

    def _keep(self, rest: bytes, needed_bytes: int) -> None:
        self._unfinished = [rest]
        self.buffered_bytes = len(rest)
        self._needed_bytes = needed_bytes

    def _keep_unfinished(self, data: bytes, start: int, outcome: Incomplete) -> None:
        """Keep the bytes, and of a request of many words the complete words: otherwise each byte of a slow client
        would cause another parse of the whole request."""
        if len(outcome.words) < _WORDS_BEGUN:
            self._keep(data[start:], outcome.needed_bytes)
            return
        begun_bytes = outcome.at - start + (self._begun[2] if self._begun is not None else 0)
        self._begun = (outcome.words, outcome.words_left, begun_bytes)
        self._keep(data[outcome.at :], outcome.needed_bytes + begun_bytes - (outcome.at - start))
        self.buffered_bytes += begun_bytes

    def _take_unfinished(self) -> tuple[bytes, int]:
        """The bytes, and where the unfinished request begins in them."""
        assert self._unfinished is not None, "callers check this first"
        blocks, self._unfinished = self._unfinished, None
        begin, self._begin, self.buffered_bytes = self._begin, 0, 0
        return (bytes(blocks[0]) if len(blocks) == 1 else b"".join(blocks)), begin

    def _append(self, data: bytes) -> None:
        assert self._unfinished is not None, "callers check this first"
        last = self._unfinished[-1]
        if len(last) + len(data) > _BLOCK_BYTES:
            self._unfinished.append(data)
        elif isinstance(last, bytearray):
            last += data
        else:
            self._unfinished[-1] = bytearray(last) + data

    def _finish_begun(self, data: bytes) -> list[Command]:
        """Continue the unfinished request, then parse as usual."""
        assert self._begun is not None, "callers check this first"
        words, words_left, _ = self._begun
        outcome = parse_words(data, 0, words, words_left, self.limits)
        if isinstance(outcome, Incomplete):
            self._keep_unfinished(data, 0, outcome)
            return []
        self._begun = None
        if isinstance(outcome, str):
            self.error = outcome
            return []
        command, end = outcome
        if end < len(data):
            self.unfinished += 1
            self._keep(data[end:], 0)
        return [command]


def _lone_publish(data: bytes) -> Publishes | None:
    """One small PUBLISH and nothing else: the usual chunk of a client that waits for each receipt.

    Its two lengths are all that has to be parsed; the set-up of a parser, and the checks of its result, would take
    three times as long.
    """
    header = _LONE_PUBLISH(data)
    if header is None:
        return None
    topic_at = header.end()
    topic_end = topic_at + int(header[1])
    header = _NEXT_WORD(data, topic_end)
    if header is None:
        return None
    payload_at = header.end()
    payload_end = payload_at + int(header[1])
    # As in Redis and hiredis, the two bytes after a word are skipped unread; here only the last two.
    if payload_end + 2 != len(data):
        return None
    return Publishes((data[topic_at:topic_end],), (data[payload_at:payload_end],))


def _lone_command(data: bytes) -> Command | None:
    """One request of up to nine words and nothing else, in its usual encoding; None for anything else.

    As with a lone PUBLISH, its lengths are all that has to be parsed: XADD from a client that waits for each receipt.
    """
    header = _FEW_WORDS(data)
    if header is None:
        return None
    words: Command = []
    at = header.end()
    for _ in range(int(header[1])):
        header = _WORD(data, at)
        if header is None:
            return None
        begin = header.end()
        end = begin + int(header[1])
        words.append(data[begin:end])
        # As in Redis and hiredis, the two bytes after a word are skipped unread.
        at = end + 2
    return words if at == len(data) else None


def _announces_much(data: bytes) -> bool:
    """Whether an array header in the data, or bytes that look like one, has many digits.

    Where asterisks are far apart, as between messages of a kilobyte, a step from one to the next is many times as
    fast as the regular expression, which is used otherwise.
    """
    hops_left = len(data) >> 9
    if not hops_left:
        return _LARGE_ARRAY(data) is not None
    at = 0
    while hops_left and at >= 0:
        digits = data[at + 1 : at + 1 + _COUNT_DIGITS]
        if digits.isdigit() and len(digits) == _COUNT_DIGITS:
            return True
        hops_left -= 1
        at = data.find(b"*", at + 1)
    return at >= 0 and _LARGE_ARRAY(data, at) is not None


def _parse_fast(data: bytes) -> list[Command]:
    reader = hiredis.Reader()
    size = len(data)
    if size <= _SLICE_BYTES:
        reader.feed(data)
        return list(iter(reader.gets, False))
    commands: list[Command] = []
    for start in range(0, size, _SLICE_BYTES):
        reader.feed(data, start, min(_SLICE_BYTES, size - start))
        commands += iter(reader.gets, False)
    return commands


def leading_publishes(commands: list[Command]) -> Publishes:
    """The PUBLISH commands at the beginning, as columns. The first command must be one."""
    count = 0
    for command in commands:
        if len(command) != 3 or command[0] != b"PUBLISH":
            break
        count += 1
    _, topics, payloads = zip(*commands[:count], strict=True)
    return Publishes(topics, payloads)


def _as_publishes(commands: list[Command]) -> Publishes | None:
    """The commands as columns, if all of them are PUBLISH. Loops in C throughout."""
    if len(commands) == 1:
        # A client that waits for each reply: transposing one command would take longer than all the rest.
        command = commands[0]
        if type(command) is list and len(command) == 3 and command[0] == b"PUBLISH":
            return Publishes((command[1],), (command[2],))
        return None
    try:
        verbs, topics, payloads = zip(*commands, strict=True)
    except (TypeError, ValueError):
        # A command does not have three words, or is not a list: hiredis returns a null array as None.
        return None
    return Publishes(topics, payloads) if verbs.count(b"PUBLISH") == len(verbs) else None


def _publishes_size(publishes: Publishes) -> int:
    """Their size in the one encoding. Raises TypeError if an element is not a byte string."""
    topics, payloads = publishes
    if len(topics) == 1:
        return _PUBLISH_SIZE + bulk_size(topics[0]) + bulk_size(payloads[0])
    return _PUBLISH_SIZE * len(topics) + bulks_size(topics) + bulks_size(payloads)


def _spell_publishes(publishes: Publishes) -> bytes:
    topics, payloads = publishes
    topic = topics[0]
    if topics.count(topic) == len(topics):
        return plain_encoder(2, b"PUBLISH", topic)(0, payloads)
    messages = zip(topics, payloads, strict=True)
    return b"".join([spell((b"PUBLISH", *message)) for message in messages])


def text_of(argument: bytes) -> str:
    return argument.decode("utf-8", "surrogateescape")


def parse_integer(argument: bytes) -> int | None:
    """As Redis reads numbers: an optional minus, digits, nothing else, within 64 bits."""
    digits = argument[1:] if argument[:1] == b"-" else argument
    if not (digits.isdigit() and digits.isascii()) or len(digits) > 19:
        return None
    if digits[:1] == b"0" and argument != b"0":
        return None
    number = int(argument)
    return number if -(2**63) <= number < 2**63 else None
