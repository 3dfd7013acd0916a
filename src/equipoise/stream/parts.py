"""What a source sends of one stream, part by part, in the order in which it sends it.

Hubs send these to each other as frames, and to smart clients as pushes (docs/reference/wire.md); both merge them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias


class Messages(NamedTuple):
    """Consecutive messages, the first at n."""

    epoch: int
    n: int
    payloads: Sequence[bytes]


class Opened(NamedTuple):
    """The stream goes on in another epoch, after position (after_epoch, after_n).

    after_epoch 0: that position is not known, because the hub that numbered the stream died with it.
    """

    epoch: int
    after_epoch: int
    after_n: int
    after_hub: str = ""
    """The hub that closed the epoch before; relays only."""
    at: int = 0
    """How far the epoch has come without the subscriber: what lies before is missing."""


class Dependency(NamedTuple):
    """What follows comes after this position of another stream of the topic."""

    stream: bytes
    epoch: int
    n: int


class Ended(NamedTuple):
    """The lane is over; epoch 0: it is not known where it ended."""

    epoch: int
    n: int


class Begun(NamedTuple):
    """The lane comes from the position after this one."""

    epoch: int
    n: int


Part: TypeAlias = Messages | Opened | Dependency | Ended | Begun


def size_of(part: Part) -> int:
    """Bytes of payload."""
    return sum(map(len, part.payloads)) if type(part) is Messages else 0
