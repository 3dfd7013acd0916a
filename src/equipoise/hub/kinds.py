"""The ways to subscribe, as data: five kinds that differ only in words, namespace and form of delivery."""

from __future__ import annotations

from enum import Enum


class Kind(Enum):
    """One way to subscribe. Kinds with the same `counted_with` share the count in their replies."""

    def __init__(self, prefix: str, message: str, counted_with: str) -> None:
        self.subscribed = f"{prefix}subscribe".encode()
        self.unsubscribed = f"{prefix}unsubscribe".encode()
        self.message = message.encode()
        self.counted_with = counted_with

    NAME = ("", "message", "plain")
    PATTERN = ("p", "pmessage", "plain")
    SHARD = ("s", "smessage", "shard")
    POSITIONED_NAME = ("eq.", "eq.message", "positioned")
    POSITIONED_PATTERN = ("eq.p", "eq.pmessage", "positioned")

    # Enum would hash by name in Python; identity is the same and free.
    __hash__ = object.__hash__

    @property
    def is_pattern(self) -> bool:
        return self in (Kind.PATTERN, Kind.POSITIONED_PATTERN)

    @property
    def is_positioned(self) -> bool:
        return self in (Kind.POSITIONED_NAME, Kind.POSITIONED_PATTERN)

    @property
    def is_shard(self) -> bool:
        return self is Kind.SHARD
