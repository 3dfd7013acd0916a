"""Encode what a hub answers, in RESP2 and RESP3.

Every function returns the finished bytes. `proto` is 2 or 3; where the two differ, RESP3 has the richer type and
RESP2 the array that Redis puts in its place.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from equipoise.resp.spelling import bulk as bulk

OK = b"+OK\r\n"
PONG = b"+PONG\r\n"

# The receivers of most messages: PUBLISH is answered more often than anything else.
_SMALL = [b":%d\r\n" % number for number in range(1_024)]

Value = bytes | str | int | None | list["Value"] | dict[str, "Value"]


def simple(text: str) -> bytes:
    return b"+%b\r\n" % text.encode()


def error(text: str) -> bytes:
    """Newlines would end the reply early, so they become blanks, as in Redis."""
    return b"-%b\r\n" % text.encode("utf-8", "surrogateescape").replace(b"\r", b" ").replace(b"\n", b" ")


def integer(number: int) -> bytes:
    return _SMALL[number] if 0 <= number < len(_SMALL) else b":%d\r\n" % number


def null(proto: int) -> bytes:
    return b"_\r\n" if proto == 3 else b"$-1\r\n"


def verbatim(text: str, proto: int) -> bytes:
    body = text.encode("utf-8", "surrogateescape")
    return b"=%d\r\ntxt:%b\r\n" % (len(body) + 4, body) if proto == 3 else bulk(body)


def array(items: Iterable[bytes]) -> bytes:
    """Of items that are encoded already."""
    parts = list(items)
    return b"*%d\r\n%b" % (len(parts), b"".join(parts))


def set_of(items: Iterable[bytes], proto: int) -> bytes:
    parts = list(items)
    return b"%c%d\r\n%b" % (b"~" if proto == 3 else b"*", len(parts), b"".join(parts))


def push(items: Iterable[bytes], proto: int) -> bytes:
    parts = list(items)
    return b"%c%d\r\n%b" % (b">" if proto == 3 else b"*", len(parts), b"".join(parts))


def mapping(pairs: Mapping[bytes, bytes], proto: int) -> bytes:
    """From encoded key to encoded value; in RESP2 an array of both in turn."""
    body = b"".join(part for pair in pairs.items() for part in pair)
    return b"%%%d\r\n%b" % (len(pairs), body) if proto == 3 else b"*%d\r\n%b" % (2 * len(pairs), body)


def value(item: Value, proto: int) -> bytes:
    """Plain Python values by their natural type; a str becomes a bulk string."""
    match item:
        case None:
            return null(proto)
        case bytes():
            return bulk(item)
        case str():
            return bulk(item.encode())
        case int():
            return integer(item)
        case list():
            return array(value(part, proto) for part in item)
        case dict():
            return mapping({bulk(k.encode()): value(v, proto) for k, v in item.items()}, proto)
