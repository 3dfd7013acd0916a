"""A light client's connection to one hub, and the messages of one topic over its connections.

Requests written before the connection stands are kept. What has a reply, and what is answered by a push, is remembered
in order: so a reply is known by its place, and an answer to a subscription belongs to the latest one only if nothing
was asked after it. Messages of a topic are merged as the Equipoise client merges them, and counted.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import hiredis

from equipoise.client.url import Endpoint
from equipoise.client.wire.codec import encode_request
from equipoise.client.wire.requests import BEHIND_BYTES_MAX, Answered
from equipoise.errors import RefusedError
from equipoise.stream.merge import TopicMerge
from equipoise.stream.position import TRUNK

__all__ = ["DeliveryCounts", "Hearing", "LightLink", "LightSubscription", "Owner"]

# What is called with the reply to a request; None: it is dropped.
Reply = Callable[[object], None] | None

_ASK = (b"EQ.SUBSCRIBE", b"EQ.OWN")
_LEAVE = (b"EQ.UNSUBSCRIBE", b"EQ.NOTOWN")


@dataclass
class DeliveryCounts:
    """Written by all clients that share it. Plain counters: they are raised once per message."""

    deliveries: int = 0
    # Messages that a subscriber knows to have missed, by position.
    missed: int = 0
    # Gaps of unknown size.
    unknown_gaps: int = 0
    # Connections lost that this side had not closed.
    cuts: int = 0


class Owner(Protocol):
    """The client that a connection belongs to."""

    def on_push(self, link: LightLink, push: list[Any]) -> None: ...

    def on_up(self, link: LightLink) -> None: ...

    def on_refused(self, subscription: LightSubscription) -> None: ...

    def on_lost(self, link: LightLink) -> None: ...


class LightSubscription:
    """A subscription to one topic over one link: to all of its streams, or to those that the hub numbers itself."""

    __slots__ = ("is_live", "is_own", "left_out", "link", "topic")

    def __init__(self, link: LightLink, topic: bytes, *, is_own: bool) -> None:
        self.link = link
        self.topic = topic
        self.is_own = is_own
        self.is_live = False
        # Streams that the hub does not bring.
        self.left_out: set[bytes] = set()

    def leave(self) -> None:
        self.is_live = False
        table = self.link.subscriptions[self.is_own]
        if table.get(self.topic) is self:
            del table[self.topic]
            self.link.tell(encode_request(_LEAVE[self.is_own], self.topic))


class LightLink(asyncio.Protocol):
    """One connection. Over once `on_lost` was called or `close` was."""

    def __init__(self, owner: Owner, hub: Endpoint, name: bytes) -> None:
        self.hub = hub
        self.used_at = 0.0
        # By topic: all streams; the hub's own.
        self.subscriptions: tuple[dict[bytes, LightSubscription], dict[bytes, LightSubscription]] = ({}, {})
        self._owner = owner
        self._reader = hiredis.Reader()
        self._transport: asyncio.Transport | None = None
        self._is_closed = False
        # What has come in, ever.
        self._read_bytes = 0
        self._owed: deque[Reply | LightSubscription] = deque((None, None))
        self._early = [encode_request(b"HELLO", b"3"), encode_request(b"EQ.LINK", name, b"ROUTES")]

    async def dial(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            await loop.create_connection(lambda: self, self.hub.host, self.hub.port)
        except OSError:
            self._end()

    def tell(self, request: bytes) -> None:
        """Send a request that is answered by pushes alone."""
        if self._transport is None:
            self._early.append(request)
        else:
            self._transport.write(request)

    def ask(self, request: bytes, reply: Reply = None) -> None:
        """Send a request that has one reply."""
        self._owed.append(reply)
        self.tell(request)

    @property
    def is_up(self) -> bool:
        return self._transport is not None and not self._is_closed

    def measure(self, frame: bytes, answered: Answered) -> None:
        """Ask, and take the time until the reply; as the real client's connection does."""
        assert self._transport is not None, "only a link that is up is measured"
        clock, before = asyncio.get_running_loop().time, self._read_bytes
        is_clear = not self._transport.get_write_buffer_size()
        began_at = clock()

        def reply(answer: object) -> None:
            is_free = is_clear and self._read_bytes - before <= BEHIND_BYTES_MAX
            refusal = RefusedError(str(answer)) if isinstance(answer, hiredis.ReplyError) else None
            answered(refusal or answer, clock() - began_at if is_free else None)

        self.ask(frame, reply)

    def subscription(self, topic: bytes, *, is_own: bool) -> LightSubscription:
        """Subscribe, unless that was done."""
        table = self.subscriptions[is_own]
        subscription = table.get(topic)
        if subscription is None:
            subscription = table[topic] = LightSubscription(self, topic, is_own=is_own)
            self._owed.append(subscription)
            self.tell(encode_request(_ASK[is_own], topic))
        return subscription

    def confirmed(self, topic: bytes, *, is_own: bool) -> LightSubscription | None:
        """A subscription to the topic stands: which one, if it is still wanted."""
        for owed in self._owed:
            if isinstance(owed, LightSubscription) and owed.topic == topic and owed.is_own is is_own:
                self._owed.remove(owed)
                if self.subscriptions[is_own].get(topic) is owed:
                    owed.is_live = True
                    return owed
                return None
        return None

    def close(self) -> None:
        self._is_closed = True
        if self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        if self._is_closed:
            transport.close()
            return
        transport.write(b"".join(self._early))
        self._early.clear()
        self._owner.on_up(self)

    def data_received(self, data: bytes) -> None:
        self._read_bytes += len(data)
        reader = self._reader
        reader.feed(data)
        while (reply := reader.gets()) is not False:
            if type(reply) is hiredis.PushNotification:
                self._owner.on_push(self, reply)
                continue
            owed = self._owed.popleft()
            if isinstance(owed, LightSubscription):
                # An answer that is no push is a refusal.
                self._owner.on_refused(owed)
            elif owed is not None:
                owed(reply)

    def connection_lost(self, exc: Exception | None) -> None:
        self._end()

    def _end(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._owner.on_lost(self)


# What may wait from a hub that is changed to: never the limit here, since a world has no memory to protect.
MERGE_BYTES_MAX = 1 << 30


class Hearing:
    """One topic, over one link or over several. Owned by one client."""

    __slots__ = ("_counts", "_receive", "is_live", "merge", "topic")

    def __init__(self, topic: bytes, counts: DeliveryCounts, receive: Callable[[bytes, bytes], None]) -> None:
        self.topic = topic
        self.merge = TopicMerge(self, MERGE_BYTES_MAX)
        self._counts = counts
        self._receive = receive
        # Whether a hub has said that the trunk stands, and we have not lost it since.
        self.is_live = False

    @property
    def links(self) -> list[LightLink]:
        """Where it is subscribed to, or being."""
        return [
            subscription.link
            for subscription in self.merge.sources
            if isinstance(subscription, LightSubscription)
        ]

    @property
    def wanted(self) -> list[LightSubscription]:
        """Where it is to be subscribed to."""
        return [
            subscription for subscription in self.merge.wanted if isinstance(subscription, LightSubscription)
        ]

    def leave(self) -> None:
        for subscription in list(self.merge.sources):
            subscription.leave()

    def take_message(self, link: LightLink, push: list[Any]) -> None:
        """Messages of the trunk. Apart from the rest: this runs once for each."""
        every, own = link.subscriptions
        subscription = every.get(self.topic)
        if subscription is not None and subscription.is_live:
            self.merge.receive(subscription, TRUNK, push[2], push[3], push[4:])
        subscription = own.get(self.topic) if own else None
        if subscription is not None and subscription.is_live and TRUNK not in subscription.left_out:
            self.merge.receive(subscription, TRUNK, push[2], push[3], push[4:])

    def take(self, link: LightLink, push: list[Any]) -> None:
        """Deal with whatever else a hub sent about the topic."""
        kind = push[0]
        stream = TRUNK if kind in (b"eq.opened", b"eq.trunk") else push[2]
        every, own = (subscriptions.get(self.topic) for subscriptions in link.subscriptions)
        if own is not None and (kind == b"eq.ended" or (kind == b"eq.lane" and every is None)):
            # Of what it leaves out the hub says no more than that its hub is dead, or that another begins.
            own.left_out.discard(stream)
        for subscription in (every, own):
            if subscription is not None and subscription.is_live and stream not in subscription.left_out:
                self._take_news(subscription, kind, push)

    def _take_news(self, subscription: LightSubscription, kind: bytes, push: list[Any]) -> None:
        """Messages of lanes, and that streams begin, go on, end or follow each other."""
        merge = self.merge
        if kind == b"eq.lmessage":
            merge.receive(subscription, push[2], push[3], push[4], push[5:])
        elif kind == b"eq.opened":
            merge.opened(subscription, *push[2:6])
        elif kind == b"eq.lane":
            merge.begin(subscription, *push[2:5])
        elif kind == b"eq.trunk":
            merge.begin(subscription, TRUNK, *push[2:4])
        elif kind == b"eq.ended":
            merge.ended(subscription, *push[2:5])
        elif kind == b"eq.after":
            merge.depends(subscription, *push[2:6])

    def confirm(self, subscription: LightSubscription, push: list[Any]) -> None:
        """The subscription stands."""
        if not subscription.is_own:
            self.merge.begin(subscription, TRUNK, push[3], push[4])
            return
        subscription.left_out = set(push[6:])
        if push[3] is not None:
            self.merge.begin(subscription, push[3], push[4], push[5])

    # What the merging tells.

    def on_down(self) -> None:
        self.is_live = False

    def on_live(self, missed: int | None) -> None:
        self.is_live = True
        self._count(missed)

    def on_messages(self, epoch: int, n: int, payloads: Sequence[bytes], missed: int | None) -> None:
        if missed != 0:
            self._count(missed)
        self._counts.deliveries += len(payloads)
        for payload in payloads:
            self._receive(self.topic, payload)

    def _count(self, missed: int | None) -> None:
        if missed is None:
            self._counts.unknown_gaps += 1
        else:
            self._counts.missed += missed
