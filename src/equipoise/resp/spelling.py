"""The one spelling of a request: an array of bulk strings. Clients write it, hubs write it to each other, and the
reader compares with it what it has parsed."""

from __future__ import annotations

from collections.abc import Iterable


def bulk(word: bytes) -> bytes:
    return b"$%d\r\n%b\r\n" % (len(word), word)


def spell(words: Iterable[bytes]) -> bytes:
    """Raises TypeError if a word is not a byte string."""
    parts = [b"$%d\r\n%b\r\n" % (len(word), word) for word in words]
    return b"*%d\r\n%b" % (len(parts), b"".join(parts))
