"""A light client's connection to one hub: requests out, pushes and replies in.

Requests written before it stands are kept. Every request that has a reply other than a push is remembered in order,
so that a reply is known by its place.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

import hiredis

from equipoise.client.codec import encode_request
from equipoise.experiments.fleet import PORT

__all__ = ["LightLink", "Owner"]

# What is called with the reply to a request; None: nobody cares.
Reply = Callable[[object], None] | None


class Owner(Protocol):
    """Whose connection it is."""

    def on_push(self, link: LightLink, push: list[Any]) -> None: ...

    def on_lost(self, link: LightLink) -> None: ...


class LightLink(asyncio.Protocol):
    """One connection. Over once `on_lost` was called or `close` was."""

    def __init__(self, owner: Owner, hub: str, name: bytes) -> None:
        self.hub = hub
        self.used_at = 0.0
        self._owner = owner
        self._reader = hiredis.Reader()
        self._transport: asyncio.Transport | None = None
        self._is_closed = False
        self._owed: deque[Reply] = deque((None, None))
        # Subscriptions not answered yet, by topic: until the last of them is, nothing about the topic counts.
        self.asked: dict[bytes, int] = {}
        self._early = [encode_request(b"HELLO", b"3"), encode_request(b"EQ.LINK", name, b"ROUTES")]

    async def dial(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            await loop.create_connection(lambda: self, self.hub, PORT)
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

    def subscribe(self, topic: bytes) -> None:
        self.asked[topic] = self.asked.get(topic, 0) + 1
        self.tell(encode_request(b"EQ.SUBSCRIBE", topic))

    def leave(self, name: bytes) -> None:
        """End the subscription to a topic here."""
        self.tell(encode_request(b"EQ.UNSUBSCRIBE", name))

    def counts(self, kind: bytes, topic: bytes) -> bool:
        """Whether a push about a topic is of the latest subscription to it."""
        if topic not in self.asked:
            return True
        if kind == b"eq.subscribe":
            self.asked[topic] -= 1
            if not self.asked[topic]:
                del self.asked[topic]
                return True
        return False

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

    def data_received(self, data: bytes) -> None:
        reader = self._reader
        reader.feed(data)
        while (reply := reader.gets()) is not False:
            if type(reply) is hiredis.PushNotification:
                self._owner.on_push(self, reply)
                continue
            told = self._owed.popleft()
            if told is not None:
                told(reply)

    def connection_lost(self, exc: Exception | None) -> None:
        self._end()

    def _end(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._owner.on_lost(self)
