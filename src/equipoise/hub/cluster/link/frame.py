"""The base of all frames between hubs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import msgspec

from equipoise.stream.parts import Dependency as Tag

__all__ = ["Frame", "Life", "Offsets", "Path", "Payloads", "Tag"]

# A hub's name and its incarnation.
Life = tuple[str, int]
# The hubs that a message has passed through, the latest last.
Path = tuple[Life, ...]
# Positions of messages, relative to the first position of a span; increasing.
Offsets = tuple[int, ...]
# All words after the other fields, at least one.
Payloads = Sequence[bytes]


class Frame(msgspec.Struct, frozen=True, gc=False):
    """A `key` names a stream: a topic's name for its trunk, or a lane's key. A `topic` is always a topic's name."""

    verb: ClassVar[bytes] = b""
    # The capability that the receiver has to announce; empty: every hub supports the frame.
    capability: ClassVar[str] = ""
