"""Globs agree with Redis's own matcher, byte for byte, and take linear time where that one does not.

The reference below follows `stringmatchlen` of Redis 7.0 step by step, backtracking and all. It is itself
checked against a redis-server where one is installed. Two things differ by intention and are tested by
themselves: names starting with `$`, and ranges that cross from below 128 to above, which Redis compares as
signed bytes on x86.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator

import hiredis
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from equipoise.model import Glob
from support.processes import redis_server


def reference(pattern: bytes, name: bytes) -> bool:
    """Redis 7.0's matcher: recursive on stars, one byte at a time otherwise."""
    p, s = 0, 0
    while p < len(pattern) and s < len(name):
        byte = pattern[p : p + 1]
        if byte == b"*":
            while pattern[p + 1 : p + 2] == b"*":
                p += 1
            if p + 1 == len(pattern):
                return True
            return any(reference(pattern[p + 1 :], name[i:]) for i in range(s, len(name)))
        if byte == b"[":
            found, p = reference_class(pattern, p + 1, name[s])
            if not found:
                return False
        elif byte != b"?":
            if byte == b"\\" and p + 1 < len(pattern):
                p += 1
            if pattern[p] != name[s]:
                return False
        p, s = p + 1, s + 1
        if s == len(name):
            while pattern[p : p + 1] == b"*":
                p += 1
            break
    return p == len(pattern) and s == len(name)


def reference_class(pattern: bytes, p: int, byte: int) -> tuple[bool, int]:
    """The inside of a bracket: whether it holds the byte, and where it ends."""
    negated = pattern[p : p + 1] == b"^"
    p += negated
    found = False
    while True:
        left = len(pattern) - p
        if left >= 2 and pattern[p] == ord("\\"):
            p += 1
            found |= pattern[p] == byte
        elif left >= 1 and pattern[p] == ord("]"):
            break
        elif left == 0:
            p -= 1
            break
        elif left >= 3 and pattern[p + 1] == ord("-"):
            low, high = sorted((pattern[p], pattern[p + 2]))
            found |= low <= byte <= high
            p += 2
        else:
            found |= pattern[p] == byte
        p += 1
    return found != negated, p


# Few letters and all the syntax, so that patterns and names meet often and brackets stay open often.
patterns = st.lists(st.sampled_from([*b"aabbc-^*?[]\\\xe9"]), max_size=12).map(bytes)
names = st.lists(st.sampled_from([*b"aabbc-^*?[]\\\xe9"]), max_size=8).map(bytes)

TABLE = [
    (b"", b"", True),
    (b"", b"a", False),
    (b"*", b"", False),  # Redis looks at no pattern once the name has ended
    (b"**", b"", False),
    (b"*", b"anything", True),
    (b"a*", b"a", True),
    (b"*a", b"a", True),
    (b"a**b", b"ab", True),
    (b"a*b*c", b"a--b--c", True),
    (b"a*b*c", b"a--c--b", False),
    (b"h?llo", b"hello", True),
    (b"h?llo", b"hllo", False),
    (b"h[ae]llo", b"hallo", True),
    (b"h[ae]llo", b"hillo", False),
    (b"h[^e]llo", b"hallo", True),
    (b"h[^e]llo", b"hello", False),
    (b"h[a-c]llo", b"hbllo", True),
    (b"h[c-a]llo", b"hbllo", True),
    (b"[a-]", b"]", True),  # the range a to ], and no end of the class
    (b"[a-]", b"-", False),
    (b"[-a]", b"-", True),
    (b"[]a]", b"a", False),  # an empty class
    (b"[^]a", b"xa", True),
    (b"[\\]]", b"]", True),
    (b"[\\a-c]", b"-", True),
    (b"[\\a-c]", b"b", False),
    (b"[ab", b"b", True),
    (b"[", b"[", False),
    (b"[^", b"x", True),
    (b"[\\", b"\\", True),
    (b"a\\*", b"a*", True),
    (b"a\\*", b"ab", False),
    (b"a\\", b"a\\", True),
    (b"\\\\", b"\\", True),
    (b"[^a]*", b"\xff\x00", True),
    (b"\xe9*", b"\xe9t\xe9", True),
]


@pytest.mark.parametrize(("pattern", "name", "expected"), TABLE)
def test_globs_match_as_the_table_says(pattern: bytes, name: bytes, expected: bool) -> None:
    assert Glob(pattern).matches(name) is expected
    assert reference(pattern, name) is expected


@settings(max_examples=1000)
@given(patterns, names)
def test_a_glob_agrees_with_the_reference(pattern: bytes, name: bytes) -> None:
    assert Glob(pattern).matches(name) is reference(pattern, name)


@given(st.binary(max_size=10), st.binary(max_size=6))
@example(b"[a-\xff]", b"\x80")
def test_a_glob_agrees_with_the_reference_on_any_bytes(pattern: bytes, name: bytes) -> None:
    expected = reference(pattern, name) and (not name.startswith(b"$") or pattern.startswith(b"$"))
    assert Glob(pattern).matches(name) is expected


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        (b"*", False),
        (b"?a", False),
        (b"[$]a", False),
        (b"\\$a", False),
        (b"$*", True),
        (b"$a", True),
        (b"$?", True),
    ],
)
def test_a_system_name_matches_only_patterns_that_start_as_it_does(pattern: bytes, expected: bool) -> None:
    assert Glob(pattern).matches(b"$a") is expected
    assert reference(pattern, b"$a")


def test_a_pattern_that_starts_with_a_dollar_matches_no_plain_name() -> None:
    assert not Glob(b"$*").matches(b"a")


@given(patterns, names)
def test_every_name_that_matches_begins_with_the_prefix(pattern: bytes, name: bytes) -> None:
    glob = Glob(pattern)
    if glob.matches(name):
        assert name.startswith(glob.prefix)


@pytest.mark.parametrize(
    ("pattern", "prefix", "wildcards"),
    [
        (b"", b"", 0),
        (b"game.chat", b"game.chat", 0),
        (b"game.*", b"game.", 1),
        (b"game.**", b"game.", 1),
        (b"a?b", b"a", 1),
        (b"a\\*b*", b"a*b", 1),
        (b"[a]b*", b"ab", 2),
        (b"[ab]c", b"", 1),
        (b"*a*b*", b"", 3),
        (b"a[", b"a", 1),
    ],
)
def test_prefix_and_wildcards_are_read_off_the_pattern(pattern: bytes, prefix: bytes, wildcards: int) -> None:
    glob = Glob(pattern)
    assert (glob.prefix, glob.wildcards) == (prefix, wildcards)


def test_globs_are_equal_when_their_patterns_are() -> None:
    assert Glob(b"a*") == Glob(b"a*") and hash(Glob(b"a*")) == hash(Glob(b"a*"))
    assert Glob(b"a*") != Glob(b"a**")
    assert Glob(b"a*") != b"a*"
    assert repr(Glob(b"a*")) == "Glob(b'a*')"


@pytest.mark.timeout(10)
def test_a_pattern_made_to_backtrack_takes_one_step_per_byte_of_the_name() -> None:
    """A backtracking matcher needs more than 10^40 steps for this; each step here is a shift and a mask."""
    hostile = Glob(b"*a" * 127 + b"*b")
    assert not hostile.matches(b"a" * 100_000)
    assert hostile.matches(b"a" * 100_000 + b"b")


class CountingBytes(bytes):
    """A name that counts how many of its bytes are looked at."""

    steps = 0

    def __iter__(self) -> Iterator[int]:
        for byte in super().__iter__():
            CountingBytes.steps += 1
            yield byte


@given(patterns, names)
def test_no_byte_of_a_name_is_looked_at_twice(pattern: bytes, name: bytes) -> None:
    CountingBytes.steps = 0
    Glob(pattern).matches(CountingBytes(name))
    assert CountingBytes.steps <= len(name)


class Redis:
    """Asks a redis-server whether a pattern matches a name, through the listing of its channels."""

    def __init__(self, port: int) -> None:
        self._subscriber = socket.create_connection(("127.0.0.1", port), timeout=10)
        self._asker = socket.create_connection(("127.0.0.1", port), timeout=10)

    def close(self) -> None:
        self._subscriber.close()
        self._asker.close()

    def matches(self, pattern: bytes, name: bytes) -> bool:
        self._call(self._subscriber, b"SUBSCRIBE", name)
        listed = self._call(self._asker, b"PUBSUB", b"CHANNELS", pattern)
        self._call(self._subscriber, b"UNSUBSCRIBE", name)
        assert listed in ([], [name])
        return listed == [name]

    @staticmethod
    def _call(connection: socket.socket, *arguments: bytes) -> object:
        frames = [b"$%d\r\n%b\r\n" % (len(argument), argument) for argument in arguments]
        connection.sendall(b"*%d\r\n%b" % (len(frames), b"".join(frames)))
        reader = hiredis.Reader()
        while (reply := reader.gets()) is False:
            reader.feed(connection.recv(65536))
        return reply


@pytest.fixture(scope="module")
def redis() -> Iterator[Redis]:
    with redis_server() as server:
        client = Redis(server.port)
        yield client
        client.close()


@pytest.mark.needs_redis
def test_the_table_is_true_of_redis(redis: Redis) -> None:
    wrong = [
        (pattern, name) for pattern, name, expected in TABLE if redis.matches(pattern, name) is not expected
    ]
    assert wrong == []


def test_a_range_across_the_sign_bit_compares_unsigned_bytes() -> None:
    assert Glob(b"[a-\xff]").matches(b"\x80")
    assert not Glob(b"[a-\xff]").matches(b"A")


def crosses_the_sign_bit(pattern: bytes) -> bool:
    """Whether a range has one end below 128 and one above; Redis on x86 reads those the other way round."""
    return re.search(rb"[\x00-\x7f]-[\x80-\xff]|[\x80-\xff]-[\x00-\x7f]", pattern) is not None


@pytest.mark.needs_redis
@settings(max_examples=500, deadline=None)
@given(pattern=patterns.filter(lambda pattern: not crosses_the_sign_bit(pattern)), name=names)
def test_the_reference_is_true_of_redis(redis: Redis, pattern: bytes, name: bytes) -> None:
    assert redis.matches(pattern, name) is reference(pattern, name)
