"""One name subscribed over one link, as channels see it and as the link restores it at its hub."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Generic, Protocol, TypeVar

from equipoise.client.routing.channel import PatternChannel, TopicChannel
from equipoise.errors import RefusedError

TOPIC, PATTERN, OWN, FILTERED = range(4)
"""Kinds of subscription: all streams of a topic, those of all topics that match, some streams of a topic, what a filter
matches of a topic."""

ChannelT = TypeVar("ChannelT", TopicChannel, PatternChannel)


class SubscriptionTable(Protocol):
    """The subscriptions over one link."""

    def leave(self, subscription: AnySubscription) -> None:
        """End it. Does nothing if it is over."""

    def ask_cover(self, subscription: AnySubscription) -> None:
        """Have the hub say how far the streams are, if it has confirmed the subscription."""


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
        # The streams that the hub leaves out: those of the above that it knew.
        self.left_out: set[bytes] = set()
        # Of one by filter that a hub has sent here: what the request says of it, until it has been sent.
        self.migration: tuple[bytes, ...] = ()
        self.is_live = False

    @property
    def has_lanes(self) -> bool:
        """Whether the topic has had streams beside its trunk."""
        channel = self.channel
        return isinstance(channel, TopicChannel) and len(channel.merge.streams) > 1

    def leave(self) -> None:
        self.table.leave(self)

    def ask_cover(self) -> None:
        self.table.ask_cover(self)

    def include(self, stream: bytes) -> None:
        """The hub leaves the stream out no longer."""
        self.left_out.discard(stream)
        if self.elsewhere is not None:
            self.elsewhere.discard(stream)


# Of either kind of channel: where only the name and the state matter.
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
    """If the channel waits for a position, ask how far its streams are, of which a filter may match nothing."""
    if channel.where and channel.merge.awaits is not None:
        for source in list(channel.merge.sources):
            if isinstance(source, LinkSubscription):
                source.ask_cover()


def ignore_refusal(error: RefusedError) -> None:
    """A peer that refuses to unsubscribe goes on sending; what comes then belongs to no subscription and is dropped."""
