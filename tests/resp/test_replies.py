"""Replies: what RESP2 and RESP3 clients read of the same value."""

from __future__ import annotations

from typing import Any

import hiredis
import pytest

from equipoise.resp import replies
from equipoise.resp.replies import Value


def decode(data: bytes) -> Any:
    reader = hiredis.Reader()
    reader.feed(data)
    value = reader.gets()
    assert reader.gets() is False, "more than one reply"
    return value


@pytest.mark.parametrize(
    ("encoded", "expected"),
    [
        (replies.simple("OK"), b"OK"),
        (replies.integer(0), 0),
        (replies.integer(-1), -1),
        (replies.integer(1_023), 1_023),
        (replies.integer(1_024), 1_024),
        (replies.integer(2**63 - 1), 2**63 - 1),
        (replies.bulk(b""), b""),
        (replies.bulk(b"a\r\nb"), b"a\r\nb"),
        (replies.null(2), None),
        (replies.null(3), None),
        (replies.array([replies.integer(1), replies.bulk(b"x")]), [1, b"x"]),
        (replies.push([replies.bulk(b"a")], 2), [b"a"]),
        (replies.push([replies.bulk(b"a")], 3), [b"a"]),
        (replies.set_of([replies.bulk(b"a")], 2), [b"a"]),
        (replies.set_of([replies.bulk(b"a")], 3), [b"a"]),
        (replies.verbatim("ä", 2), "ä".encode()),
        (replies.verbatim("ä", 3), "ä".encode()),
        (replies.mapping({replies.bulk(b"k"): replies.integer(1)}, 2), [b"k", 1]),
        (replies.mapping({replies.bulk(b"k"): replies.integer(1)}, 3), {b"k": 1}),
    ],
)
def test_every_type_is_read_back(encoded: bytes, expected: object) -> None:
    assert decode(encoded) == expected


@pytest.mark.parametrize(
    ("encoded", "mark"),
    [
        (replies.push([], 2), b"*"),
        (replies.push([], 3), b">"),
        (replies.set_of([], 2), b"*"),
        (replies.set_of([], 3), b"~"),
        (replies.mapping({}, 2), b"*"),
        (replies.mapping({}, 3), b"%"),
        (replies.verbatim("", 2), b"$"),
        (replies.verbatim("", 3), b"="),
        (replies.null(2), b"$"),
        (replies.null(3), b"_"),
    ],
)
def test_resp3_has_the_richer_type_and_resp2_what_redis_puts_in_its_place(
    encoded: bytes, mark: bytes
) -> None:
    assert encoded[:1] == mark


def test_values_nest_by_their_natural_types() -> None:
    facts: dict[str, Value] = {"a": 1, "b": [b"x", None, {"c": "d"}]}
    assert decode(replies.value(facts, 3)) == {b"a": 1, b"b": [b"x", None, {b"c": b"d"}]}
    assert decode(replies.value(facts, 2)) == [b"a", 1, b"b", [b"x", None, [b"c", b"d"]]]


def test_an_error_is_one_line_whatever_it_quotes() -> None:
    encoded = replies.error("ERR no '\r\n+OK\r\n' \udcff")
    assert encoded.count(b"\r\n") == 1
    assert encoded.endswith(b"\xff\r\n")
