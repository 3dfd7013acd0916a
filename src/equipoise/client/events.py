"""Events of a subscription and receipts of a publish.

Names are text. A name that is not UTF-8 keeps its bytes as surrogate escapes, so that passing it back to `publish` or
`subscribe` means the same topic. Payloads are bytes, as published.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple, TypeAlias

from equipoise.stream.position import Position


class Message(NamedTuple):
    """One message. `position` is None when the server is a plain Redis, which has none."""

    topic: str
    payload: bytes
    position: Position | None = None
    pattern: str | None = None
    """The pattern that matched, for messages of `psubscribe`."""

    @property
    def text(self) -> str:
        """The payload as UTF-8. Raises UnicodeDecodeError if it is not UTF-8."""
        return self.payload.decode()


class DurableMessage(NamedTuple):
    """One message of a durable subscription."""

    topic: str
    payload: bytes
    """As published; for an entry of XADD with other fields than `payload`, all fields as an array in RESP."""
    id: str
    """Its id in the log: `ms-seq`, increasing. Store it with the result to process each message once."""
    deliveries: int = 1
    """The number of deliveries, to this subscriber or another one of its group."""

    @property
    def text(self) -> str:
        """The payload as UTF-8. Raises UnicodeDecodeError if it is not UTF-8."""
        return self.payload.decode()

    @property
    def is_redelivered(self) -> bool:
        """Whether it may have been processed already."""
        return self.deliveries > 1


class GapReason(StrEnum):
    """Why messages are missing, or may be."""

    QUEUE_FULL = "queue full"
    """The subscription was read too slowly and its oldest messages were dropped."""
    RECONNECTED = "reconnected"
    """They were published while the connection was down."""
    HOLE = "hole"
    """The hub's numbering has a hole: they were lost on the way."""
    NEW_EPOCH = "new epoch"
    """The hub began a new numbering, so earlier losses cannot be counted."""

    HUB_LOST = "hub lost"
    """A hub died, or was disconnected for too long, with messages that it had accepted. Pattern subscriptions only:
    subscriptions by name see a new epoch."""
    TRIMMED = "trimmed"
    """They were removed from the log, by its retention or by command, before delivery to a durable subscription."""


class Gap(NamedTuple):
    """Missed messages, in their place in the stream."""

    topic: str | None
    """None: any topic that matches `pattern`."""
    missed: int | None
    """Their number. None: unknown, possibly 0."""
    reason: GapReason
    pattern: str | None = None
    span: int | None = None
    """Of a subscription with a filter: the number of messages that may or may not match the filter. None: unknown; or
    the subscription has no filter."""


class Receipt(NamedTuple):
    """The hub has accepted the message."""

    receivers: int
    """Subscribers that it was delivered to, patterns included. 0 is no error."""
    position: Position | None = None
    """Of a durable topic: the message's permanent position in the log. None: the topic is not durable."""
    id: str | None = None
    """Of a durable topic: the message's id in the log, `ms-seq`."""


Event: TypeAlias = Message | Gap
