"""Where a message stands in its topic's stream.

The hub that serves a topic numbers its messages: position = (epoch, n), n counting from 1 without holes
inside an epoch. Epochs of one topic only grow. A subscriber that holds the position of its last message
therefore knows exactly what it has missed as long as the epoch is the same, and knows that it cannot know
once the epoch has changed.
"""

from __future__ import annotations

from typing import NamedTuple


class Position(NamedTuple):
    """Ordered: a later position of the same topic compares greater."""

    epoch: int
    n: int
