"""One name subscribed over one link, as channels see it and as the link restores it at its hub."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Generic, Protocol, TypeVar

from equipoise.client.routing.channel import PatternChannel, TopicChannel
from equipoise.errors import RefusedError

TOPIC, PATTERN, OWN, FILTERED = range(4)
"""Kinds of subscription: all streams of a topic, all topics that match a pattern, some streams of a topic, the messages
of a topic that match a filter."""

ChannelT = TypeVar("ChannelT", TopicChannel, PatternChannel)


class SubscriptionTable(Protocol):
    """The subscriptions over one link."""

    def leave(self, subscription: AnySubscription) -> None:
        """End it. Without effect if it has ended."""

    def ask_cover(self, subscription: AnySubscription) -> None:
        """Request the positions of the streams from the hub, if it has confirmed the subscription."""


class LinkSubscription(Generic[ChannelT]):
    """A name subscribed over one link. Live while the hub has confirmed it on the present connection."""

    __slots__ = ("channel", "elsewhere", "is_live", "is_own", "kind", "left_out", "migration", "table")

    def __init__(
        self, table: SubscriptionTable, channel: ChannelT, kind: int, elsewhere: Iterable[bytes] | None = None
    ) -> None:
        self.table = table
        self.channel: ChannelT = channel
        self.kind = kind
        self.is_own = kind == OWN
        # Of some streams: all but these; None: those that the hub numbers, and those that begin later.
        self.elsewhere = None if elsewhere is None else set(elsewhere)
        # The streams that the hub omits: those of the above that it knew.
        self.left_out: set[bytes] = set()
        # Of one by filter that a hub has assigned here: the data for the request, until it is sent.
        self.migration: tuple[bytes, ...] = ()
        self.is_live = False

    @property
    def has_lanes(self) -> bool:
        """Whether the topic has had lanes."""
        channel = self.channel
        return isinstance(channel, TopicChannel) and len(channel.merge.streams) > 1

    def leave(self) -> None:
        self.table.leave(self)

    def ask_cover(self) -> None:
        self.table.ask_cover(self)

    def include(self, stream: bytes) -> None:
        """The hub does not omit the stream any more."""
        self.left_out.discard(stream)
        if self.elsewhere is not None:
            self.elsewhere.discard(stream)


# Of either kind of channel, for code that needs only the name and the state.
AnySubscription = LinkSubscription[Any]
TopicSubscription = LinkSubscription[TopicChannel]


class SubscribeRequest:
    """In flight for one subscription. Stale once the table holds another one under that name."""

    __slots__ = ("name", "refuse", "subscription", "verb")

    def __init__(
        self, verb: bytes, subscription: AnySubscription, refuse: Callable[[RefusedError], None]
    ) -> None:
        self.verb = verb
        self.subscription = subscription
        self.name: bytes = subscription.channel.wire_name
        self.refuse = refuse


def seek(channel: TopicChannel) -> None:
    """If the channel waits for a position, request those of its streams: a filter may match no message of them."""
    if channel.where and channel.merge.awaits is not None:
        for source in list(channel.merge.sources):
            if isinstance(source, LinkSubscription):
                source.ask_cover()


def ignore_refusal(error: RefusedError) -> None:
    """A peer that refuses to unsubscribe continues to send; such messages belong to no subscription and are dropped."""
