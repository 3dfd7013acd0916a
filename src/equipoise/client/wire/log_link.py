"""Requests about logs, over a separate connection to any hub, opened on demand and reopened after a loss.

Each hub forwards a request to the owner of the log. A read may wait there for seconds, and delays the requests behind
it, so it has a connection of its own.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any

from equipoise.client.url import Endpoint
from equipoise.client.wire.connection import Connection
from equipoise.client.wire.dial import ClientDialer
from equipoise.client.wire.error_replies import is_permanent
from equipoise.client.wire.requests import NowaitLosses, Push
from equipoise.errors import ClosedError, DisconnectedError, EquipoiseError, PeerError, UncertainError

__all__ = ["LogLink"]


class LogLink:
    """Owned by a durable subscription, or by the bus. Any task may send requests."""

    def __init__(
        self, dialer: ClientDialer, known_hubs: Callable[[], list[Endpoint]], rng: random.Random
    ) -> None:
        self._dialer = dialer
        self._known_hubs = known_hubs
        self._rng = rng
        self._endpoints = dialer.url.endpoints
        self._connection: Connection | None = None
        self._dialling = asyncio.Lock()
        self._is_closed = False
        # Called with the topic of a durable subscription if the topic is not durable.
        self.on_undurable: Callable[[bytes], object] = lambda topic: None

    async def ask(self, *words: bytes, timeout_s: float) -> Any:
        """The reply. Raises RefusedError, DisconnectedError if it was not sent, UncertainError if no reply came."""
        connection = await self._connected()
        future = connection.ask(*words)
        try:
            async with asyncio.timeout(timeout_s):
                return await future
        except TimeoutError:
            self.drop()
            raise UncertainError(
                f"the hub did not reply to {words[0].decode()} within {timeout_s:g} s"
            ) from None

    async def _connected(self) -> Connection:
        async with self._dialling:
            if self._is_closed:
                raise ClosedError("the bus is closed; call connect() again")
            if self._connection is None or self._connection.lost.done():
                self._connection = await self._dial()
            return self._connection

    async def _dial(self) -> Connection:
        """Try every address once. Raises a permanent refusal at once, else the last failure."""
        failure: EquipoiseError | None = None
        own = self._endpoints
        for endpoint in (*own, *(hub for hub in self._known_hubs() if hub not in own)):
            # A new name, unknown to hubs: no earlier request can arrive under it.
            name = self._rng.randbytes(16).hex().encode()
            try:
                connection = await self._dialer.dial(endpoint, name, self, NowaitLosses())
            except (DisconnectedError, PeerError) as error:
                if is_permanent(error) and endpoint in own:
                    raise
                failure = error
            else:
                if endpoint in own:
                    # The next attempt begins with another address.
                    at = own.index(endpoint) + 1
                    self._endpoints = own[at:] + own[:at]
                return connection
        assert failure is not None, "a bus URL has at least one address"
        raise failure

    def drop(self) -> None:
        """Close the connection: the next request opens another."""
        connection, self._connection = self._connection, None
        if connection is not None and not connection.lost.done():
            connection.abort(DisconnectedError("given up by its owner"))

    def close(self) -> None:
        self._is_closed = True
        self.drop()

    # Events of the connection.

    def on_push(self, connection: Connection, push: Push) -> None:
        """Routes are irrelevant here: any hub forwards requests."""
        if push[0] == b"eq.undurable":
            self.on_undurable(push[1])

    def on_read(self, connection: Connection) -> None: ...

    def on_lost(self, connection: Connection, error: EquipoiseError) -> None: ...
