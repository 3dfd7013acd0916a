"""The position of a message in its topic's stream.

A topic's home numbers its messages: position = (epoch, n), where n counts from 1 without holes inside an epoch. Epochs
of one topic only increase. So a subscriber with the position of its last message knows exactly how many messages it has
missed while the epoch is the same; after a change of epoch, the number is unknown unless the new epoch names the end of
the old one.

A topic has a trunk and, where it is replicated for many publishers, lanes: streams with positions of their own, each
named after the hub that numbers it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from equipoise.errors import ProtocolError

TRUNK = b""
"""The name of the stream that every topic has. A lane has the name of its hub."""


DURABLE_EPOCH = 1
"""The constant epoch of a durable topic for clients: n is the number of an entry in its log."""


class Position(NamedTuple):
    """Ordered: a later position of the same stream compares greater."""

    epoch: int
    n: int


# Greatest lead of another hub's clock, in seconds: epochs are microseconds of the clock of the hub that assigned them.
CLOCK_SKEW_S_MAX = 86_400.0


class Epochs:
    """Assigns the epochs of one hub, each greater than all that it has assigned or received."""

    def __init__(self, wall_time: Callable[[], float]) -> None:
        self._wall_time = wall_time
        self.last = int(wall_time() * 1_000_000)

    def new(self, above: int = 0) -> int:
        """A new epoch, also greater than `above`."""
        self.last = max(self.last + 1, above + 1, int(self._wall_time() * 1_000_000))
        return self.last

    def note(self, epoch: int) -> None:
        """Another hub has assigned this epoch: new ones here will be greater.

        Raises ProtocolError for an epoch too far in the future, which all later epochs would have to exceed.
        """
        if epoch > self.last:
            if epoch > (self._wall_time() + CLOCK_SKEW_S_MAX) * 1_000_000:
                raise ProtocolError(f"epoch {epoch} is further ahead than clocks may differ")
            self.last = epoch
