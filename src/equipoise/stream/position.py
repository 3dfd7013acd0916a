"""Where a message stands in its topic's stream.

The hub that serves a topic numbers its messages: position = (epoch, n), n counting from 1 without holes
inside an epoch. Epochs of one topic only grow. A subscriber that holds the position of its last message
therefore knows exactly what it has missed as long as the epoch is the same, and knows that it cannot know
once the epoch has changed.

A topic has a trunk and, where it is replicated for many publishers, lanes: streams with positions of their own, each
named after the hub that numbers it.
"""

from __future__ import annotations

from typing import NamedTuple

TRUNK = b""
"""The name of the stream that every topic has. A lane has the name of its hub."""


class Position(NamedTuple):
    """Ordered: a later position of the same stream compares greater."""

    epoch: int
    n: int
