"""The position of a message in its topic's stream.

The hub that serves a topic numbers its messages: position = (epoch, n), n counting from 1 without holes
inside an epoch. Epochs of one topic only grow. A subscriber that holds the position of its last message
therefore knows exactly what it has missed as long as the epoch is the same, and knows that it cannot know
once the epoch has changed.

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
"""The epoch that clients see of a durable topic, for ever: n is the number of an entry in its log."""


class Position(NamedTuple):
    """Ordered: a later position of the same stream compares greater."""

    epoch: int
    n: int


# How far the clock of another hub may be ahead of ours: epochs are microseconds of the clock of the hub that made them.
CLOCK_SKEW_S_MAX = 86_400.0


class Epochs:
    """Makes the epochs of one hub, each later than all that it has made or heard of."""

    def __init__(self, wall_time: Callable[[], float]) -> None:
        self._wall_time = wall_time
        self.last = int(wall_time() * 1_000_000)

    def new(self, above: int = 0) -> int:
        """Later than `above`, too."""
        self.last = max(self.last + 1, above + 1, int(self._wall_time() * 1_000_000))
        return self.last

    def note(self, epoch: int) -> None:
        """Another hub has made this one, whatever its clock says.

        Raises ProtocolError for one that no hub can have made: all later epochs would have to lie above it.
        """
        if epoch > self.last:
            if epoch > (self._wall_time() + CLOCK_SKEW_S_MAX) * 1_000_000:
                raise ProtocolError(f"epoch {epoch} is further ahead than clocks may differ")
            self.last = epoch
