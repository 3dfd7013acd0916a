"""Requests: the same bytes give the same commands and the same error, however they come."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from equipoise.resp import Publishes, RequestLimits, RequestReader, exact
from equipoise.resp.exact import split_arguments
from resp.streams import TIGHT, WIDE, cut, read, read_exactly, request, spelled_out, streams, words

FEW = settings(derandomize=True, max_examples=200, deadline=None)
limits = st.sampled_from([TIGHT, WIDE])


@FEW
@given(streams, st.lists(st.integers(0, 2_000), max_size=6), limits)
def test_any_split_gives_what_the_exact_parser_gives(
    stream: bytes, points: list[int], limits: RequestLimits
) -> None:
    assert read(cut(stream, points), limits) == read_exactly(stream, limits)


@FEW
@given(streams, limits)
def test_byte_by_byte_gives_what_one_piece_gives(stream: bytes, limits: RequestLimits) -> None:
    assert read((stream[i : i + 1] for i in range(len(stream))), limits) == read([stream], limits)


@FEW
@given(st.binary(max_size=200), st.lists(st.integers(0, 200), max_size=4))
def test_garbage_reads_the_same_in_any_pieces(garbage: bytes, points: list[int]) -> None:
    stream = request(b"PING") + b"*" + garbage
    assert read(cut(stream, points), TIGHT) == read_exactly(stream, TIGHT)


@settings(derandomize=True, max_examples=100, deadline=None)
@given(st.lists(st.tuples(words, words), min_size=1, max_size=20))
def test_a_pipeline_of_publishes_comes_out_as_columns(messages: list[tuple[bytes, bytes]]) -> None:
    batch = RequestReader(WIDE).feed(b"".join(request(b"PUBLISH", *message) for message in messages))
    assert spelled_out(batch) == [[b"PUBLISH", *message] for message in messages]


def test_an_ordinary_run_of_publishes_takes_the_fast_way() -> None:
    batch = RequestReader(WIDE).feed(request(b"PUBLISH", b"t", b"payload") * 50)
    assert isinstance(batch, Publishes)


# A parser that trusts hiredis and the total length alone would take each of these for a run of PUBLISH.
_AS_PUBLISH = [
    pytest.param(b">3\r\n", id="push"),
    pytest.param(b"~3\r\n", id="set"),
]


@pytest.mark.parametrize("header", _AS_PUBLISH)
def test_only_arrays_are_requests(header: bytes) -> None:
    publish = request(b"PUBLISH", b"t", b"x")
    odd = header + publish.removeprefix(b"*3\r\n")
    stream = publish * 3 + odd
    assert read([stream], WIDE) == read_exactly(stream, WIDE) != ([[b"PUBLISH", b"t", b"x"]] * 4, None)


def test_an_attribute_is_no_request() -> None:
    stream = request(b"PING") + b"|1\r\n$4\r\nECHO\r\n$1\r\nx\r\n"
    commands, _ = read([stream], WIDE)
    assert [b"ECHO", b"x"] not in commands


def test_short_and_long_forms_that_make_up_for_each_other_are_found_out() -> None:
    """
    1. A verbatim string is four bytes longer than the same bulk string, a simple string three bytes shorter.
    2. Three of the former and four of the latter together are as long as the canonical request.
    """
    stream = b"*7\r\n" + b"=6\r\ntxt:OK\r\n" * 3 + b"+OK\r\n" * 4
    assert len(stream) == len(request(*[b"OK"] * 7))
    assert read([stream], WIDE) == ([], "Protocol error: expected '$', got '='")


def test_two_such_forms_among_publishes_are_found_out() -> None:
    verbatim = b"*3\r\n$7\r\nPUBLISH\r\n$1\r\nt\r\n=6\r\ntxt:ab\r\n"
    simple = b"*3\r\n$7\r\nPUBLISH\r\n$1\r\nt\r\n+ab\r\n"
    stream = verbatim * 3 + simple * 4
    assert len(stream) == 7 * len(request(b"PUBLISH", b"t", b"ab"))
    assert read([stream], WIDE) == ([], "Protocol error: expected '$', got '='")


def test_bytes_after_a_payload_are_skipped_unread_as_redis_does() -> None:
    stream = b"*2\r\n$4\r\nECHOxy$1\r\nazz" + request(b"PING")
    assert read([stream], WIDE) == ([[b"ECHO", b"a"], [b"PING"]], None)


def test_nothing_comes_out_after_an_error() -> None:
    reader = RequestReader(WIDE)
    assert spelled_out(reader.feed(request(b"PING") + b"*x\r\n" + request(b"PING"))) == [[b"PING"]]
    assert reader.error == "Protocol error: invalid multibulk length"


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "announcement",
    [
        b"*2000000000\r\n",
        b"*1\r\n>2000000000\r\n",
        b"*1\r\n~2000000000\r\n",
        b"*1\r\n%2000000000\r\n",
        b"*1\r\n|2000000000\r\n",
        b"*1\r\n*2000000000\r\n",
        b"*2\r\n$4\r\nPING\r\n$536870912\r\n",
    ],
)
@pytest.mark.parametrize("before", [b"", request(b"PING"), request(b"PUBLISH", b"t", b"x") * 4])
def test_nothing_is_allocated_from_an_announced_number(before: bytes, announcement: bytes) -> None:
    reader = RequestReader(WIDE)
    tracemalloc.start()
    try:
        reader.feed(before + announcement)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < 100_000
    assert reader.error is not None


@pytest.mark.parametrize("start", [b"*", b"*1\r\n$", b"*2\r\n$4\r\nECHO\r\n$"])
def test_a_header_line_without_end_is_an_error_within_its_limit(start: bytes) -> None:
    reader = RequestReader(TIGHT)
    for sent in range(1, 100):
        reader.feed(start if sent == 1 else b"1")
        if reader.error is not None:
            break
    assert reader.error in (
        "Protocol error: too big mbulk count string",
        "Protocol error: too big bulk count string",
    )
    assert sent <= TIGHT.header_bytes_max + 1


def test_a_typed_line_without_end_is_an_error_within_its_limit() -> None:
    reader = RequestReader(TIGHT)
    reader.feed(b"x" * (TIGHT.inline_bytes_max - 1))
    assert reader.error is None
    reader.feed(b"x")
    assert reader.error == "Protocol error: too big inline request"


def test_a_large_payload_in_small_pieces_is_held_once() -> None:
    reader = RequestReader(WIDE)
    stream = request(b"PUBLISH", b"t", b"x" * 1_000_000)
    for at in range(0, len(stream), 10_000):
        assert reader.buffered_bytes == at
        batch = reader.feed(stream[at : at + 10_000])
    assert spelled_out(batch) == [[b"PUBLISH", b"t", b"x" * 1_000_000]]
    assert reader.buffered_bytes == 0


def test_a_request_of_many_words_is_not_read_again_for_every_byte(monkeypatch: pytest.MonkeyPatch) -> None:
    reads = 0

    def counted(*args: Any) -> Any:
        nonlocal reads
        reads += 1
        return parse_bulk(*args)

    parse_bulk = exact._parse_bulk
    monkeypatch.setattr(exact, "_parse_bulk", counted)
    stream = request(*[b"a"] * 1_000)
    assert read((stream[i : i + 1] for i in range(len(stream))), WIDE) == ([[b"a"] * 1_000], None)
    assert reads < 3 * len(stream)


@pytest.mark.parametrize("words_before", [0, 40])
def test_what_is_held_is_counted_and_not_multiplied(words_before: int) -> None:
    """Two bytes at a time: as pieces of their own they would weigh twenty times as much."""
    reader = RequestReader(WIDE)
    sent = 0
    tracemalloc.start()
    try:
        for data in (b"*50\r\n", b"$1\r\na\r\n" * words_before, b"$200000\r\n"):
            reader.feed(data)
            sent += len(data)
        for _ in range(90_000):
            reader.feed(b"xy")
            sent += 2
        held_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert reader.buffered_bytes == sent
    assert held_bytes < 2 * sent


@pytest.mark.parametrize(
    ("stream", "expected"),
    [
        (b"*17\r\n", "Protocol error: invalid multibulk length"),
        (b"*1\r\n$201\r\n", "Protocol error: invalid bulk length"),
        (b"*1\r\n$-1\r\n", "Protocol error: invalid bulk length"),
        (b"*1\r\n$1_0\r\n", "Protocol error: invalid bulk length"),
        (b"*1\r\n:5\r\n", "Protocol error: expected '$', got ':'"),
        (b"*1\r\n*1\r\n$1\r\na\r\n", "Protocol error: expected '$', got '*'"),
        (b"x" * 64, "Protocol error: too big inline request"),
        (b"a b c d e f g h i j k l m n o p q\r\n", "Protocol error: too big inline request"),
        (b'ECHO "a\r\n', "Protocol error: unbalanced quotes in request"),
        (b"GET / HTTP/1.1\r\n", "Protocol error: this is a pub/sub hub, not an HTTP server"),
        (b"Host: me\r\n", "Protocol error: this is a pub/sub hub, not an HTTP server"),
    ],
)
def test_what_a_request_may_not_be_is_said(stream: bytes, expected: str) -> None:
    assert read([request(b"PING"), stream], TIGHT) == ([[b"PING"]], expected)


@pytest.mark.parametrize(
    ("limit", "within", "beyond"),
    [
        ("args", request(*[b"a"] * 16), request(*[b"a"] * 17)),
        ("payload", request(b"a" * 200), request(b"a" * 201)),
        ("header", b"*000000000001"[:1] + b"1\r\n$1\r\na\r\n", b"*" + b"1" * 12),
        ("inline", b"a" * 63 + b"\n", b"a" * 64 + b"\n"),
    ],
)
def test_each_limit_is_met_exactly(limit: str, within: bytes, beyond: bytes) -> None:
    assert read([within], TIGHT)[1] is None
    assert len(read([within], TIGHT)[0]) == 1
    assert read([beyond], TIGHT)[1] is not None


def test_before_authentication_the_words_are_redis_words() -> None:
    stranger = RequestLimits(
        args_max=10, payload_bytes_max=64, header_bytes_max=32, inline_bytes_max=64, is_authenticated=False
    )
    assert read([b"*11\r\n"], stranger)[1] == "Protocol error: unauthenticated multibulk length"
    assert read([b"*1\r\n$65\r\n"], stranger)[1] == "Protocol error: unauthenticated bulk length"


@settings(derandomize=True, max_examples=200, deadline=None)
@given(st.lists(st.binary(max_size=20), min_size=1, max_size=4))
def test_a_typed_line_with_every_byte_escaped_is_read_back(arguments: list[bytes]) -> None:
    typed = b" ".join(b'"' + b"".join(b"\\x%02x" % byte for byte in word) + b'"' for word in arguments)
    assert split_arguments(typed) == arguments


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        (rb"""'it\'s' a"b" """, [b"it's", b"ab"]),
        (rb"""'it\'s' "a"b """, None),
        (rb"""'it\'s' "a b" """, [b"it's", b"a b"]),
        (rb'"\x4" "\n\t\"" ', [b"x4", b'\n\t"']),
        (rb"'\n'", [rb"\n"]),
        (b'""', [b""]),
        (b"'", None),
    ],
)
def test_typed_lines_are_split_as_redis_splits_them(typed: bytes, expected: list[bytes] | None) -> None:
    assert split_arguments(typed) == expected
