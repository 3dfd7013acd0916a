"""The seven kinds of subscription as data: they differ in command names, namespace and format."""

from __future__ import annotations

from enum import Enum


class Kind(Enum):
    """One way to subscribe. Kinds with the same `counted_with` share the count in their replies."""

    def __init__(self, subscribed: str, unsubscribed: str, message: str, counted_with: str) -> None:
        self.subscribed = subscribed.encode()
        self.unsubscribed = unsubscribed.encode()
        self.message = message.encode()
        # The same for messages of a lane.
        self.lane_message = message.replace("eq.", "eq.l").encode()
        self.counted_with = counted_with

    NAME = ("subscribe", "unsubscribe", "message", "plain")
    PATTERN = ("psubscribe", "punsubscribe", "pmessage", "plain")
    SHARD = ("ssubscribe", "sunsubscribe", "smessage", "shard")
    POSITIONED_NAME = ("eq.subscribe", "eq.unsubscribe", "eq.message", "positioned")
    POSITIONED_PATTERN = ("eq.psubscribe", "eq.punsubscribe", "eq.pmessage", "positioned")
    # The topic's streams that the client does not receive from other hubs.
    OWN = ("eq.own", "eq.notown", "eq.message", "positioned")
    # A topic's messages that match a filter. The client numbers these subscriptions; the number is the name.
    FILTERED = ("eq.fsubscribe", "eq.funsubscribe", "eq.fmessage", "positioned")

    # `Enum.__hash__` is Python code that hashes the name; hashing by identity is equivalent and faster.
    __hash__ = object.__hash__

    @property
    def is_pattern(self) -> bool:
        return self in (Kind.PATTERN, Kind.POSITIONED_PATTERN)

    @property
    def is_positioned(self) -> bool:
        return self in (Kind.POSITIONED_NAME, Kind.POSITIONED_PATTERN, Kind.OWN, Kind.FILTERED)

    @property
    def is_by_name(self) -> bool:
        """Whether it is for one topic, with positions: the hub notifies such subscribers of changes of streams."""
        return self in (Kind.POSITIONED_NAME, Kind.OWN, Kind.FILTERED)

    @property
    def is_shard(self) -> bool:
        return self is Kind.SHARD
