"""Parts of a stream, as a source sends them in order.

Hubs send these to each other as frames, and to smart clients as pushes (docs/reference/wire.md); both merge them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeAlias


class Messages(NamedTuple):
    """Consecutive messages, the first at n."""

    epoch: int
    n: int
    payloads: Sequence[bytes]


class FilteredRun(NamedTuple):
    """Of `span` positions from n on, all messages that the receiver wants, at `offsets` behind n."""

    epoch: int
    n: int
    span: int
    offsets: Sequence[int]
    payloads: Sequence[bytes]

    def runs(self, after: int) -> Iterator[tuple[int, Sequence[bytes]]]:
        """Its messages beyond a position of its epoch, in pieces without holes, each with its first position."""
        start, offsets = 0, self.offsets
        for i in range(1, len(offsets) + 1):
            if i == len(offsets) or offsets[i] != offsets[i - 1] + 1:
                first = self.n + offsets[start]
                skip = min(max(0, after + 1 - first), i - start)
                if start + skip < i:
                    yield first + skip, self.payloads[start + skip : i]
                start = i


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


class Again(NamedTuple):
    """Messages up to n of the epoch may repeat what clients of a dead home have got; relays only."""

    epoch: int
    n: int


Part: TypeAlias = Messages | FilteredRun | Opened | Dependency | Ended | Begun | Again


def size_of(part: Part) -> int:
    """Bytes of payload."""
    return sum(map(len, part.payloads)) if isinstance(part, Messages | FilteredRun) else 0
