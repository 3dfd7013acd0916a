"""Keep the subscriptions of one link equal at the client and at its hub.

Names are subscribed one by one, so that a refusal concerns one name. A name is requested when it is first used here and
again on every new connection; a peer without positions gets Redis's own commands instead. channels.py decides what
follows when a name is refused or revoked, and which link has which name.

Always true: a subscription is in the table of its kind exactly while this link is to have it. The order of requests is
the order in which names were added.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from equipoise.client.routing.channel import PatternChannel, TopicChannel
from equipoise.client.wire.codec import encode_request
from equipoise.client.wire.connection import Connection
from equipoise.client.wire.error_replies import is_unknown_command
from equipoise.client.wire.link_subscription import (
    FILTERED,
    OWN,
    PATTERN,
    TOPIC,
    AnySubscription,
    LinkSubscription,
    SubscribeRequest,
    TopicSubscription,
    ignore_refusal,
    seek,
)
from equipoise.client.wire.requests import Push, SyncRequest
from equipoise.errors import ProtocolError, RefusedError
from equipoise.stream.parts import FilteredRun
from equipoise.stream.position import TRUNK

_SUBSCRIBE = (b"subscribe", b"psubscribe", b"own", b"fsubscribe")
_UNSUBSCRIBE = (b"unsubscribe", b"punsubscribe", b"notown", b"funsubscribe")
_POSITIONED = b"eq."
_PING = encode_request(b"PING")
_LATE = "TRYAGAIN this hub could not carry out the command"  # The request is repeated.


class SubscriptionOwner(Protocol):
    """Decides which link subscribes to what."""

    def on_refused(self, subscription: AnySubscription, error: RefusedError | None) -> None:
        """The hub refuses the name; None: it has served it, and revokes it."""

    def on_seat(self, push: Push) -> None: ...
    def on_durable(self, version: int) -> None: ...
    def on_home(self, push: Push) -> None:
        """A hub announces the homes of a topic."""

    def on_edge(self, channel: TopicChannel, words: Push) -> None:
        """A hub assigns a subscription by filter to an edge: version, address, session, total."""

    def on_deferred(self, connection: Connection, topic: bytes, ahead: int) -> None:
        """A publish to the topic waits at the hub; up to `ahead` may."""

    def on_deferred_reply(self, topic: bytes) -> None:
        """One of them has its result."""


class LinkSubscriptions:
    """Owned by one link."""

    def __init__(self, owner: SubscriptionOwner) -> None:
        self._owner = owner
        self._topics: dict[bytes, TopicSubscription] = {}
        self._patterns: dict[bytes, LinkSubscription[PatternChannel]] = {}
        self._owns: dict[bytes, TopicSubscription] = {}
        self._filtered: dict[bytes, TopicSubscription] = {}
        # By kind.
        self._tables: tuple[dict[bytes, AnySubscription], ...] = (
            self._topics,
            self._patterns,
            self._owns,
            self._filtered,
        )
        self._connection: Connection | None = None
        self._handlers: dict[object, Callable[[Connection, Push], None]] = {
            b"eq.message": self._on_message,
            b"eq.lmessage": self._on_lane_message,
            b"eq.pmessage": self._on_pattern_message,
            b"eq.lpmessage": self._on_lane_pattern_message,
            b"eq.fmessage": lambda connection, push: self._on_filtered(push[1], TRUNK, push[2:]),
            b"eq.lfmessage": lambda connection, push: self._on_filtered(push[1], push[2], push[3:]),
            b"eq.gap": self._on_gap,
            b"eq.opened": self._on_opened,
            b"eq.trunk": lambda connection, push: self._begin(push[1], TRUNK, push[2], push[3]),
            b"eq.lane": lambda connection, push: self._begin(push[1], push[2], push[3], push[4]),
            b"eq.ended": self._on_ended,
            b"eq.after": self._on_after,
            b"eq.home": lambda connection, push: self._owner.on_home(push),
            b"eq.seat": lambda connection, push: self._owner.on_seat(push),
            b"eq.edge": self._on_edge,
            b"eq.here": self._on_here,
            b"eq.durable": lambda connection, push: self._owner.on_durable(push[1]),
            **dict.fromkeys((b"eq.settled", b"eq.severed"), Connection.answer),
            b"eq.deferred": self._on_deferred,
            b"eq.reply": self._on_deferred_reply,
            b"message": self._on_plain_message,
            b"pmessage": self._on_plain_pattern_message,
        }
        for verb in _SUBSCRIBE:
            self._handlers[verb] = self._handlers[_POSITIONED + verb] = self._on_subscribed
        for verb in _UNSUBSCRIBE:
            self._handlers[verb] = self._handlers[_POSITIONED + verb] = self._on_unsubscribed

    # Subscriptions.

    def __len__(self) -> int:
        return sum(map(len, self._tables))

    def want_pattern(self, channel: PatternChannel) -> LinkSubscription[PatternChannel]:
        """The subscription to this pattern, created if necessary."""
        known = self._patterns.get(channel.name)
        if known is None:
            known = self._patterns[channel.name] = LinkSubscription(self, channel, PATTERN)
            self._subscribe_now(known)
        return known

    def want(
        self, channel: TopicChannel, *, is_own: bool = False, elsewhere: Iterable[bytes] | None = None
    ) -> TopicSubscription:
        """The subscription to this topic, created if necessary. The caller informs the channel first."""
        kind = FILTERED if channel.where else OWN if is_own else TOPIC
        known = self._tables[kind].get(channel.wire_name)
        if known is None:
            known = self._tables[kind][channel.wire_name] = LinkSubscription(self, channel, kind, elsewhere)
        elif not channel.migration:
            return known
        # One that returns before its end was sent requests again: the session waits for it.
        known.migration, channel.migration = channel.migration, ()
        self._subscribe_now(known)
        return known

    def leave(self, subscription: AnySubscription) -> None:
        """End it. Without effect if it has ended."""
        if self._is_current(subscription):
            self._drop(subscription)
            if self._connection is not None:
                self._request(self._connection, _UNSUBSCRIBE[subscription.kind], subscription, ignore_refusal)

    def ask_cover(self, subscription: TopicSubscription) -> None:
        """Request the positions of the streams from the hub, if it has confirmed the subscription."""
        if subscription.is_live and self._connection is not None:
            self._connection.tell(b"EQ.COVER", subscription.channel.wire_name)

    def topics(self) -> list[TopicSubscription]:
        return [*self._topics.values(), *self._owns.values(), *self._filtered.values()]

    def patterns(self) -> list[LinkSubscription[PatternChannel]]:
        return list(self._patterns.values())

    def _all(self) -> list[AnySubscription]:
        return [subscription for table in self._tables for subscription in table.values()]

    # The connection.

    def attach(self, connection: Connection) -> None:
        self._connection = connection
        for subscription in self._all():
            self._subscribe(connection, subscription)

    def detach(self) -> None:
        self._connection = None
        for subscription in self._all():
            subscription.is_live = False

    def _subscribe_now(self, subscription: AnySubscription) -> None:
        if self._connection is not None:
            self._subscribe(self._connection, subscription)

    def _subscribe(self, connection: Connection, subscription: AnySubscription) -> None:
        def refuse(error: RefusedError) -> None:
            self._on_refused(connection, subscription, error)

        self._request(connection, _SUBSCRIBE[subscription.kind], subscription, refuse)
        if subscription.kind != PATTERN and (connection.is_among or subscription.has_lanes):
            # After its reply the hub lists the topic's streams; the reply to a ping shows that the list is complete.
            # Ended lanes are not listed; and later subscriptions at other hubs may list more.
            connection.submit(SyncRequest(_PING, lambda: self._on_greeted(subscription)))

    def _request(
        self,
        connection: Connection,
        verb: bytes,
        subscription: AnySubscription,
        refuse: Callable[[RefusedError], None],
    ) -> None:
        words: list[bytes] = [subscription.channel.wire_name]
        if verb == _SUBSCRIBE[OWN] and subscription.elsewhere is not None:
            words += [b"ELSEWHERE", *sorted(subscription.elsewhere)]
        if verb == _SUBSCRIBE[FILTERED]:
            words += [subscription.channel.name, subscription.channel.where, *subscription.migration]
            # Once: a repeated request is not counted again.
            subscription.migration = ()
        if connection.has_positions or subscription.kind == FILTERED:
            verb = _POSITIONED + verb
        connection.in_flight.add(SubscribeRequest(verb, subscription, refuse))
        if verb == b"eq.subscribe" and connection.can_resume and subscription.channel.resume_at is not None:
            verb = b"eq.resume"
            words.append(b"%d" % subscription.channel.resume_at)
        connection.send(encode_request(verb.upper(), *words))

    def _is_current(self, subscription: AnySubscription) -> bool:
        return self._tables[subscription.kind].get(subscription.channel.wire_name) is subscription

    def _on_refused(self, connection: Connection, subscription: AnySubscription, error: RefusedError) -> None:
        if not self._is_current(subscription):
            return
        if is_unknown_command(error) and "EQ." in error.text.upper() and not subscription.is_own:
            if subscription.kind != FILTERED:
                is_resumed = "EQ.RESUME" in error.text.upper()
                connection.can_resume &= not is_resumed
                connection.has_positions &= is_resumed
                self._subscribe(connection, subscription)
                return
            error = RefusedError(
                f"{error.text}; the server has no filters: use an Equipoise hub of this release"
            )
        if error.text.startswith(_LATE):
            self._subscribe(connection, subscription)
            return
        self._drop(subscription)
        self._owner.on_refused(subscription, error)

    def _on_greeted(self, subscription: TopicSubscription) -> None:
        if subscription.is_live and self._is_current(subscription):
            subscription.channel.merge.greeted(subscription)

    def _drop(self, subscription: AnySubscription) -> None:
        """No messages arrive under this name any more."""
        del self._tables[subscription.kind][subscription.channel.wire_name]
        subscription.is_live = False

    def _live(self, topic: bytes, stream: bytes) -> list[TopicSubscription]:
        """The subscriptions, up to two, that a push about a stream of a topic is for."""
        found: list[TopicSubscription] = []
        whole, part = self._topics.get(topic), self._owns.get(topic)
        if whole is not None and whole.is_live:
            found.append(whole)
        if part is not None and part.is_live and stream not in part.left_out:
            found.append(part)
        return found

    def _concerned(self, topic: bytes, stream: bytes) -> list[TopicSubscription]:
        """The same with those by filters: for pushes about the beginning and the end of streams."""
        filtered = [
            found for found in self._filtered.values() if found.is_live and found.channel.name == topic
        ]
        return [*self._live(topic, stream), *filtered]

    # Pushes.

    def on_push(self, connection: Connection, push: Push) -> None:
        handler = self._handlers.get(push[0])
        if handler is not None:
            try:
                handler(connection, push)
            except (IndexError, TypeError, ValueError) as error:
                raise ProtocolError(f"a malformed push: {push[:4]!r}") from error

    def _on_message(self, connection: Connection, push: Push) -> None:
        # Written out: this runs once per push.
        topic: bytes = push[1]
        subscription = self._topics.get(topic)
        if subscription is not None and subscription.is_live:
            subscription.channel.merge.receive(subscription, TRUNK, push[2], push[3], push[4:])
        subscription = self._owns.get(topic) if self._owns else None
        if subscription is not None and subscription.is_live and TRUNK not in subscription.left_out:
            subscription.channel.merge.receive(subscription, TRUNK, push[2], push[3], push[4:])

    def _on_lane_message(self, connection: Connection, push: Push) -> None:
        for subscription in self._live(push[1], push[2]):
            subscription.channel.merge.receive(subscription, push[2], push[3], push[4], push[5:])

    def _on_filtered(self, number: bytes, stream: bytes, words: Push) -> None:
        """The messages of a span that a filter matches, each with its position."""
        subscription = self._filtered.get(number)
        if subscription is not None and subscription.is_live:
            epoch, first, count = words[:3]
            offsets = [position - first for position in words[3::2]]
            run = FilteredRun(epoch, first, count, offsets, words[4::2])
            subscription.channel.merge.receive_run(subscription, stream, run)

    def _on_edge(self, connection: Connection, push: Push) -> None:
        subscription = self._filtered.get(push[1])
        if subscription is not None and subscription.is_live:
            self._owner.on_edge(subscription.channel, push[2:6])

    def _begin(self, topic: bytes, stream: bytes, epoch: int, n: int) -> None:
        """The hub sends the stream from a position on."""
        part = self._owns.get(topic)
        if part is not None and stream in part.left_out and not self._concerned(topic, stream):
            # Not sent for a stream that the hub omits for all: this is the next lane of that name.
            part.include(stream)
        for subscription in self._concerned(topic, stream):
            subscription.channel.merge.begin(subscription, stream, epoch, n)

    def _on_opened(self, connection: Connection, push: Push) -> None:
        for subscription in self._concerned(push[1], TRUNK):
            subscription.channel.merge.opened(subscription, *push[2:6])

    def _on_ended(self, connection: Connection, push: Push) -> None:
        topic, stream, epoch, n = push[1:5]
        part = self._owns.get(topic)
        if part is not None:
            # A subscription that omitted it learns only that its hub is dead; the next lane of that name is omitted
            # nowhere.
            part.include(stream)
        for subscription in self._concerned(topic, stream):
            subscription.channel.merge.ended(subscription, stream, epoch, n)

    def _on_after(self, connection: Connection, push: Push) -> None:
        topic, stream, other, epoch, n = push[1:6]
        for subscription in self._concerned(topic, stream):
            subscription.channel.merge.depends(subscription, stream, other, epoch, n)

    def _on_pattern_message(self, connection: Connection, push: Push) -> None:
        subscription = self._patterns.get(push[1])
        if subscription is not None and subscription.is_live:
            subscription.channel.receive(push[2], TRUNK, push[3], push[4], push[5:])

    def _on_lane_pattern_message(self, connection: Connection, push: Push) -> None:
        subscription = self._patterns.get(push[1])
        if subscription is not None and subscription.is_live:
            subscription.channel.receive(push[2], push[3], push[4], push[5], push[6:])

    def _on_gap(self, connection: Connection, push: Push) -> None:
        """A hub was lost with messages of a topic that the pattern matches; no topic: of any."""
        subscription = self._patterns.get(push[1])
        if subscription is not None and subscription.is_live:
            subscription.channel.lose(push[2])

    def _on_here(self, connection: Connection, push: Push) -> None:
        """The peer is a hub of a cluster, with this address; none: it does not know the address yet."""
        if push[1] is not None:
            connection.hub = bytes(push[1])
        connection.is_among = True

    def _on_deferred(self, connection: Connection, push: Push) -> None:
        topic, number, ahead = bytes(push[1]), int(push[2]), int(push[3])
        connection.in_flight.defer(number, topic)
        self._owner.on_deferred(connection, topic, ahead)

    def _on_deferred_reply(self, connection: Connection, push: Push) -> None:
        topic = connection.in_flight.deferred.answer(int(push[1]), push[2])
        if topic is not None:
            self._owner.on_deferred_reply(topic)

    def _on_plain_message(self, connection: Connection, push: Push) -> None:
        for subscription in self._live(push[1], TRUNK):
            subscription.channel.receive_plain(push[2])

    def _on_plain_pattern_message(self, connection: Connection, push: Push) -> None:
        subscription = self._patterns.get(push[1])
        if subscription is not None and subscription.is_live:
            subscription.channel.receive_plain(push[2], push[3])

    def _on_subscribed(self, connection: Connection, push: Push) -> None:
        verb: bytes = push[0]
        request = connection.in_flight.confirm(verb, push[1])
        if not isinstance(request, SubscribeRequest):
            raise ProtocolError(f"a subscription was confirmed without a request: {push[1]!r}")
        subscription = request.subscription
        if not self._is_current(subscription):
            return
        subscription.is_live = True
        if isinstance(subscription.channel, PatternChannel):
            subscription.channel.confirm()
        else:
            self._begin_topic(connection, subscription, push, is_plain=not verb.startswith(_POSITIONED))

    def _begin_topic(
        self, connection: Connection, subscription: TopicSubscription, push: Push, *, is_plain: bool
    ) -> None:
        channel = subscription.channel
        if is_plain:
            channel.confirm_plain(subscription)
        elif not subscription.is_own:
            channel.merge.begin(subscription, TRUNK, push[3], push[4], may_lag=connection.is_among)
            seek(channel)
        else:
            subscription.left_out = set(push[6:])
            if push[3] is not None and push[3] not in subscription.left_out:
                channel.merge.begin(subscription, push[3], push[4], push[5])

    def _on_unsubscribed(self, connection: Connection, push: Push) -> None:
        verb, name = push[0], push[1]
        if connection.in_flight.confirm(verb, name) is not None:
            return
        # Not requested: the hub has revoked the subscription.
        subscription = self._tables[_UNSUBSCRIBE.index(verb.removeprefix(_POSITIONED))].get(name)
        if subscription is not None:
            self._drop(subscription)
            self._owner.on_refused(subscription, None)
