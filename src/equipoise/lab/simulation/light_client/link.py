"""A light client's connection to one hub, and the messages of one topic over its connections.

Requests written before the connection is established are kept. Requests with replies and subscriptions, which pushes
answer, are queued in order, so that each reply and confirmation is matched with its request. Messages of a topic are
merged as in the Equipoise client, and counted.
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

__all__ = ["DeliveryCounts", "LightLink", "LightSubscription", "Owner", "SubscribedTopic"]

# Callback for the reply to a request; None: the reply is dropped.
Reply = Callable[[object], None] | None

_ASK = (b"EQ.SUBSCRIBE", b"EQ.OWN")
_LEAVE = (b"EQ.UNSUBSCRIBE", b"EQ.NOTOWN")


@dataclass
class DeliveryCounts:
    """Counters shared by clients. Plain attributes, because each message increments them."""

    deliveries: int = 0
    # Messages that subscribers missed, by position.
    missed: int = 0
    # Gaps of unknown size.
    unknown_gaps: int = 0
    # Lost connections that the client had not closed.
    cuts: int = 0


class Owner(Protocol):
    """The client that owns a connection."""

    def on_push(self, link: LightLink, push: list[Any]) -> None: ...

    def on_up(self, link: LightLink) -> None: ...

    def on_refused(self, subscription: LightSubscription) -> None: ...

    def on_lost(self, link: LightLink) -> None: ...


class LightSubscription:
    """A subscription to one topic over one link: to all streams, or only to the streams that the hub numbers."""

    __slots__ = ("is_live", "is_own", "left_out", "link", "topic")

    def __init__(self, link: LightLink, topic: bytes, *, is_own: bool) -> None:
        self.link = link
        self.topic = topic
        self.is_own = is_own
        self.is_live = False
        # Streams that the hub does not send.
        self.left_out: set[bytes] = set()

    def leave(self) -> None:
        self.is_live = False
        table = self.link.subscriptions[self.is_own]
        if table.get(self.topic) is self:
            del table[self.topic]
            self.link.tell(encode_request(_LEAVE[self.is_own], self.topic))


class LightLink(asyncio.Protocol):
    """One connection. It ends with `on_lost` or `close`."""

    def __init__(self, owner: Owner, hub: Endpoint, name: bytes) -> None:
        self.hub = hub
        self.used_at = 0.0
        # By topic: subscriptions to all streams, and to the hub's own streams.
        self.subscriptions: tuple[dict[bytes, LightSubscription], dict[bytes, LightSubscription]] = ({}, {})
        self._owner = owner
        self._reader = hiredis.Reader()
        self._transport: asyncio.Transport | None = None
        self._is_closed = False
        # Bytes received so far.
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
        """Send a request that only pushes answer."""
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
        """Send a request and measure the time until its reply, as the real client's connection does."""
        assert self._transport is not None, "only an open link can be measured"
        clock, before = asyncio.get_running_loop().time, self._read_bytes
        is_clear = not self._transport.get_write_buffer_size()
        began_at = clock()

        def reply(answer: object) -> None:
            is_free = is_clear and self._read_bytes - before <= BEHIND_BYTES_MAX
            refusal = RefusedError(str(answer)) if isinstance(answer, hiredis.ReplyError) else None
            answered(refusal or answer, clock() - began_at if is_free else None)

        self.ask(frame, reply)

    def subscription(self, topic: bytes, *, is_own: bool) -> LightSubscription:
        """Subscribe, unless the subscription exists."""
        table = self.subscriptions[is_own]
        subscription = table.get(topic)
        if subscription is None:
            subscription = table[topic] = LightSubscription(self, topic, is_own=is_own)
            self._owed.append(subscription)
            self.tell(encode_request(_ASK[is_own], topic))
        return subscription

    def confirmed(self, topic: bytes, *, is_own: bool) -> LightSubscription | None:
        """The hub confirmed a subscription to the topic. Returns it, or None if it was cancelled."""
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
                # A reply instead of a push is a rejection.
                self._owner.on_refused(owed)
            elif owed is not None:
                owed(reply)

    def connection_lost(self, exc: Exception | None) -> None:
        self._end()

    def _end(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._owner.on_lost(self)


# Buffer for messages of a hub that the client switches to: unlimited in practice, because memory is not simulated.
MERGE_BYTES_MAX = 1 << 30


class SubscribedTopic:
    """One subscribed topic over one or several links. Owned by one client."""

    __slots__ = ("_counts", "_receive", "is_live", "merge", "topic")

    def __init__(self, topic: bytes, counts: DeliveryCounts, receive: Callable[[bytes, bytes], None]) -> None:
        self.topic = topic
        self.merge = TopicMerge(self, MERGE_BYTES_MAX)
        self._counts = counts
        self._receive = receive
        # Whether a hub has confirmed the trunk and its subscription was not lost since.
        self.is_live = False

    @property
    def links(self) -> list[LightLink]:
        """Links with a subscription, confirmed or not."""
        return [
            subscription.link
            for subscription in self.merge.sources
            if isinstance(subscription, LightSubscription)
        ]

    @property
    def wanted(self) -> list[LightSubscription]:
        """The subscriptions that the client wants to keep."""
        return [
            subscription for subscription in self.merge.wanted if isinstance(subscription, LightSubscription)
        ]

    def leave(self) -> None:
        for subscription in list(self.merge.sources):
            subscription.leave()

    def take_message(self, link: LightLink, push: list[Any]) -> None:
        """Take messages of the trunk. A separate method, because it runs once per message."""
        every, own = link.subscriptions
        subscription = every.get(self.topic)
        if subscription is not None and subscription.is_live:
            self.merge.receive(subscription, TRUNK, push[2], push[3], push[4:])
        subscription = own.get(self.topic) if own else None
        if subscription is not None and subscription.is_live and TRUNK not in subscription.left_out:
            self.merge.receive(subscription, TRUNK, push[2], push[3], push[4:])

    def take(self, link: LightLink, push: list[Any]) -> None:
        """Take any other push about the topic."""
        kind = push[0]
        stream = TRUNK if kind in (b"eq.opened", b"eq.trunk") else push[2]
        every, own = (subscriptions.get(self.topic) for subscriptions in link.subscriptions)
        if own is not None and (kind == b"eq.ended" or (kind == b"eq.lane" and every is None)):
            # For a left-out stream the hub announces only its end or a new start; from then on it sends the stream.
            own.left_out.discard(stream)
        for subscription in (every, own):
            if subscription is not None and subscription.is_live and stream not in subscription.left_out:
                self._take_news(subscription, kind, push)

    def _take_news(self, subscription: LightSubscription, kind: bytes, push: list[Any]) -> None:
        """Take messages of lanes, and starts, continuations, ends and dependencies of streams."""
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
        """The hub confirmed the subscription."""
        if not subscription.is_own:
            self.merge.begin(subscription, TRUNK, push[3], push[4])
            return
        subscription.left_out = set(push[6:])
        if push[3] is not None:
            self.merge.begin(subscription, push[3], push[4], push[5])

    # Calls of the merge.

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
