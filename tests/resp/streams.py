"""Bytes that a client may send, sensible or not, and ways to cut them into chunks.

A stream mixes what clients really send (pipelines, runs of PUBLISH, typed lines) with everything that hiredis, being
a parser of replies, would let pass, and with headers that announce more than there is.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from hypothesis import strategies as st

from equipoise.resp import Command, Publishes, RequestLimits, RequestReader
from equipoise.resp.exact import Incomplete, parse_request

# Small, so that ordinary examples cross them.
TIGHT = RequestLimits(args_max=16, payload_bytes_max=200, header_bytes_max=12, inline_bytes_max=64)
WIDE = RequestLimits(args_max=1_024, payload_bytes_max=1 << 20, header_bytes_max=32, inline_bytes_max=4_096)


def bulk(value: bytes) -> bytes:
    return b"$%d\r\n%b\r\n" % (len(value), value)


def request(*words: bytes) -> bytes:
    return b"*%d\r\n%b" % (len(words), b"".join(map(bulk, words)))


# Payloads that look like protocol: nothing in them may be taken for it.
_TRICKY = st.sampled_from(
    [
        b"",
        b"\r\n",
        b"*3\r\n",
        b"$7\r\nPUBLISH",
        b"*12345",
        b">99999",
        b"~70000\r\n",
        b"a=6\r\ntxt:",
        b"x>3",
        b"%25",
        b"|9",
    ]
)
words = st.one_of(st.binary(max_size=12), st.binary(min_size=95, max_size=105), _TRICKY)
_verbs = st.sampled_from([b"PUBLISH", b"publish", b"Publish", b"pUBLISH"])


@st.composite
def _runs(draw: st.DrawFn) -> bytes:
    verb, topics = draw(_verbs), draw(st.lists(words, min_size=1, max_size=2))
    payloads = draw(st.lists(words, min_size=1, max_size=6))
    return b"".join(request(verb, topics[i % len(topics)], payload) for i, payload in enumerate(payloads))


# What hiredis makes a plain list of byte strings of, though no request may contain it.
_elements = st.one_of(
    words.map(bulk),
    st.sampled_from(
        [
            b"+OK\r\n",
            b"+PUBLISH\r\n",
            b":5\r\n",
            b":0\r\n",
            b"$-1\r\n",
            b"*-1\r\n",
            b"*0\r\n",
            b"*1\r\n$1\r\na\r\n",
            b"=6\r\ntxt:OK\r\n",
            b"=11\r\ntxt:PUBLISH\r\n",
            b"(123\r\n",
            b",1.5\r\n",
            b"#f\r\n",
            b"_\r\n",
            b"-ERR no\r\n",
            b"%1\r\n*0\r\n+x\r\n",
            b"~1\r\n*0\r\n",
            b">1\r\n+x\r\n",
            b"|1\r\n+k\r\n+v\r\n",
            b"$3\r\nabcXY",
            b"$3\rZabc\r\n",
        ]
    ),
)


@st.composite
def _aggregates(draw: st.DrawFn) -> bytes:
    mark = draw(st.sampled_from([b"*", b"*", b"*", b">", b"~", b"%", b"|"]))
    elements = draw(st.lists(_elements, max_size=7))
    announced = len(elements) // 2 if mark in b"%|" else len(elements)
    return b"%b%d\r\n%b" % (mark, announced, b"".join(elements))


_typed = st.sampled_from(
    [
        b"PING\r\n",
        b"PING\n",
        b"\r\n",
        b"\n",
        b" SET \"a b\" 'c' \r\n",
        b'ECHO "\\x41\\n\\q"\r\n',
        b'ECHO "open\r\n',
        b"ECHO 'a'b\r\n",
        b"GET / HTTP/1.1\r\n",
        b"POST / HTTP/1.0\r\n",
        b"Host: example\r\n",
        b"a b c d e f g h i j k l m n o p q r\r\n",
        b"x" * 80,
        b"x" * 63 + b"\n",
        b"x" * 64 + b"\n",
    ]
)
_headers = st.sampled_from(
    [
        b"*0\r\n",
        b"*-1\r\n",
        b"*-7\r\n",
        b"*-0\r\n",
        b"*\r\n",
        b"*+3\r\n",
        b"*03\r\n",
        b"*1_0\r\n",
        b"*17\r\n",
        b"*99999\r\n",
        b"*2000000000\r\n",
        b"*99999999999999999999\r\n",
        b"*1\r\n*2000000000\r\n",
        b"*1\r\n>2000000000\r\n",
        b"*1\r\n~2000000000\r\n",
        b"*1\r\n%2000000000\r\n",
        b"*1\r\n|2000000000\r\n",
        b">2000000000\r\n",
        b"*1\r\n$536870912\r\n",
        b"*1\r\n$201\r\n",
        b"*1\r\n$-2\r\n",
        b"*1\r\n$ 5\r\nabcde\r\n",
        b"*1\r\n$" + b"1" * 40,
        b"*" + b"1" * 40,
        b"*1\r\n",
        b"*2\r\n$4\r\nECHO\r\n",
    ]
)
_requests = st.lists(words, min_size=1, max_size=5).map(lambda given: request(*given))
# So many words that a reader does not begin anew with each chunk.
_long_requests = st.integers(30, 70).map(lambda count: request(*(b"%d" % i for i in range(count))))

streams = st.lists(
    st.one_of(
        _requests,
        _requests,
        _long_requests,
        _runs(),
        _runs(),
        _aggregates(),
        _typed,
        _headers,
        st.binary(max_size=8),
    ),
    min_size=1,
    max_size=8,
).map(b"".join)


def cut(stream: bytes, points: Iterable[int]) -> list[bytes]:
    """The stream in pieces that begin at the given points, taken modulo its length."""
    edges = sorted({0, len(stream), *(point % (len(stream) + 1) for point in points)})
    return [stream[a:b] for a, b in pairwise(edges)]


def read(chunks: Iterable[bytes], limits: RequestLimits) -> tuple[list[Command], str | None]:
    """What a reader makes of the chunks: all commands, and the error at the end."""
    reader = RequestReader(limits)
    commands: list[Command] = []
    for chunk in chunks:
        while reader.error is None:
            commands += spelled_out(reader.feed(chunk))
            if not reader.has_more:
                break
            chunk = b""
    return commands, reader.error


def read_exactly(stream: bytes, limits: RequestLimits) -> tuple[list[Command], str | None]:
    """The same by the parser of last resort alone, which is the reference."""
    commands: list[Command] = []
    at = 0
    while at < len(stream):
        outcome = parse_request(stream, at, limits)
        if isinstance(outcome, Incomplete):
            break
        if isinstance(outcome, str):
            return commands, outcome
        command, at = outcome
        if command:
            commands.append(_in_capitals(command))
    return commands, None


def spelled_out(batch: Publishes | list[Command]) -> list[Command]:
    """A batch as commands; the columns of a run of PUBLISH do not keep how the word was spelled."""
    if isinstance(batch, Publishes):
        return [[b"PUBLISH", *message] for message in zip(*batch, strict=True)]
    return [_in_capitals(command) for command in batch]


def _in_capitals(command: Command) -> Command:
    is_publish = len(command) == 3 and command[0].upper() == b"PUBLISH"
    return [b"PUBLISH", *command[1:]] if is_publish else command
