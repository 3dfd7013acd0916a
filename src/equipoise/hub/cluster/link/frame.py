"""The base of all frames between hubs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import msgspec

from equipoise.stream.parts import Dependency as Tag

__all__ = ["Frame", "Life", "Offsets", "Path", "Payloads", "Tag"]

# A hub's name and its incarnation.
Life = tuple[str, int]
# The hubs that a message has passed, the latest last.
Path = tuple[Life, ...]
# Where messages stand behind the first position of a span, rising.
Offsets = tuple[int, ...]
# All words behind the other fields, at least one.
Payloads = Sequence[bytes]


class Frame(msgspec.Struct, frozen=True, gc=False):
    """A `key` names a stream: a topic's name for its trunk, or a lane's key. A `topic` is always a topic's name."""

    verb: ClassVar[bytes] = b""
    # What the receiver has to announce; empty: every hub understands the frame.
    capability: ClassVar[str] = ""
