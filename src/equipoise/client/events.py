"""Events of a subscription and receipts of a publish.

Names come out as text. A name that is not UTF-8 keeps its bytes as surrogate escapes, so that passing it
back to `publish` or `subscribe` means the same topic. Payloads are bytes, as published.
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
        """The payload as UTF-8. Raises UnicodeDecodeError if it is something else."""
        return self.payload.decode()


class DurableMessage(NamedTuple):
    """One message of a durable subscription."""

    topic: str
    payload: bytes
    """As published; of an entry of XADD with other fields than `payload`, all of them as an array in RESP."""
    id: str
    """Its id in the log: `ms-seq`, rising. Store it together with the outcome to deal with each message once."""
    deliveries: int = 1
    """How often it was delivered, to this subscriber or another one of its group."""

    @property
    def text(self) -> str:
        """The payload as UTF-8. Raises UnicodeDecodeError if it is something else."""
        return self.payload.decode()

    @property
    def is_redelivered(self) -> bool:
        """Whether it may have been dealt with already."""
        return self.deliveries > 1


class GapReason(StrEnum):
    """Why messages are missing, or may be."""

    QUEUE_FULL = "queue full"
    """The subscription was read too slowly and its oldest messages were dropped."""
    RECONNECTED = "reconnected"
    """They were published while the connection was down."""
    HOLE = "hole"
    """The hub's numbering jumped forward: they were lost on the way."""
    NEW_EPOCH = "new epoch"
    """The hub began to number anew, so what came before cannot be counted."""

    HUB_LOST = "hub lost"
    """A hub died, or was cut off for too long, with messages that it had taken. Subscribers by pattern only: those by
    name see a new epoch."""
    TRIMMED = "trimmed"
    """They were removed from the log, by its retention or by command, before a durable subscription got them."""


class Gap(NamedTuple):
    """Messages that were missed, standing where they would have stood."""

    topic: str | None
    """None: any of the topics that match `pattern`."""
    missed: int | None
    """How many. None: it cannot be known, and may be none."""
    reason: GapReason
    pattern: str | None = None
    span: int | None = None
    """Of a subscription with a filter: how many messages of the topic it is not known of whether the filter matches
    them. None: that cannot be known; or the subscription has no filter."""


class Receipt(NamedTuple):
    """The hub has taken the message."""

    receivers: int
    """Subscribers it was passed to, patterns included. 0 is no error: there are none."""
    position: Position | None = None
    """Of a durable topic: where the message is in the log, for ever. None: the topic is not durable."""
    id: str | None = None
    """Of a durable topic: the message's id in the log, `ms-seq`."""


Event: TypeAlias = Message | Gap
