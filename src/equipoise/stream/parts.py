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
    """A span of positions from n on, with the messages of these that the receiver needs, at `offsets` from n."""

    epoch: int
    n: int
    span: int
    offsets: Sequence[int]
    payloads: Sequence[bytes]

    def runs(self, after: int) -> Iterator[tuple[int, Sequence[bytes]]]:
        """Its messages after a position of its epoch, in consecutive runs, each with its first position."""
        start, offsets = 0, self.offsets
        for i in range(1, len(offsets) + 1):
            if i == len(offsets) or offsets[i] != offsets[i - 1] + 1:
                first = self.n + offsets[start]
                skip = min(max(0, after + 1 - first), i - start)
                if start + skip < i:
                    yield first + skip, self.payloads[start + skip : i]
                start = i


class Opened(NamedTuple):
    """The stream continues in another epoch, after position (after_epoch, after_n).

    after_epoch 0: that position is unknown, because the hub that numbered the stream died.
    """

    epoch: int
    after_epoch: int
    after_n: int
    after_hub: str = ""
    """The hub that closed the previous epoch; relays only."""
    at: int = 0
    """The position in the epoch up to which the subscriber has missed messages."""


class Dependency(NamedTuple):
    """The next parts depend on this position of another stream of the topic."""

    stream: bytes
    epoch: int
    n: int


class Ended(NamedTuple):
    """The lane has ended; epoch 0: at an unknown position."""

    epoch: int
    n: int


class Begun(NamedTuple):
    """The lane is sent from the position after this one."""

    epoch: int
    n: int


class Again(NamedTuple):
    """Messages up to n of the epoch may repeat messages that clients of a dead home have received; relays only."""

    epoch: int
    n: int


Part: TypeAlias = Messages | FilteredRun | Opened | Dependency | Ended | Begun | Again


def size_of(part: Part) -> int:
    """Payload bytes of a part."""
    return sum(map(len, part.payloads)) if isinstance(part, Messages | FilteredRun) else 0
