"""The order of a topic's publishers in which neighbours fire together, as a compact value.

An order lists publishers by the pseudonyms of the recording. A hub with the key of the recording and the name of a
client finds the client's rank; the order does not reveal names.

Always true: a publisher has one rank at most; an order has at most `PUBLISHERS_MAX` publishers.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Iterable

import msgspec

__all__ = ["PUBLISHERS_MAX", "Ranks", "SeatOrder", "pseudonym"]

# 8 bytes each: half of what a node of the store may hold.
PUBLISHERS_MAX = 60_000
_PSEUDONYM_BYTES = 8


def pseudonym(client: bytes, key: bytes) -> int:
    """The publisher's number in recorded arrivals."""
    digest = hashlib.blake2b(client, key=key, digest_size=_PSEUDONYM_BYTES).digest()
    return int.from_bytes(digest, "little", signed=True)


class SeatOrder(msgspec.Struct, frozen=True, array_like=True):
    """The stored form. Later orders of a topic have higher numbers."""

    number: int
    key: bytes
    # Pseudonyms, as signed integers of 8 bytes, little endian.
    publishers: bytes

    @classmethod
    def of(cls, number: int, key: bytes, publishers: Iterable[int]) -> SeatOrder:
        kept = list(publishers)[:PUBLISHERS_MAX]
        packed = b"".join(one.to_bytes(_PSEUDONYM_BYTES, "little", signed=True) for one in kept)
        return cls(number, key, packed)

    def ranks(self) -> Ranks:
        return Ranks(self)


class Ranks:
    """The rank of each client in an order."""

    def __init__(self, order: SeatOrder) -> None:
        self.number = order.number
        self._key = order.key
        packed = order.publishers
        names = array("q", packed[: len(packed) - len(packed) % _PSEUDONYM_BYTES])
        self._ranks = {name: rank for rank, name in enumerate(names)}

    def of(self, client: bytes) -> int | None:
        """None: it was not recorded."""
        return self._ranks.get(pseudonym(client, self._key))
