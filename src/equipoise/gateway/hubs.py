"""The hubs that a gateway finds its place by: one lasting connection to each, made again when it is lost.

A hub that refuses, falls silent or is not there is tried again after a growing while; the others go on being measured.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable

from equipoise.client.url import Endpoint
from equipoise.client.wire.connection import Connection
from equipoise.client.wire.dial import Backoff, ClientDialer, watch
from equipoise.client.wire.requests import NowaitLosses
from equipoise.client.wire.round_trip import ProbedConnection
from equipoise.errors import EquipoiseError, MisuseError

__all__ = ["GatewayHubs"]

log = logging.getLogger("equipoise.gateway")

_FIRST_S = 0.5
# A hub that is back is measured again at most so late.
_LONGEST_S = 30.0
_LINK_NAME_BYTES = 16


class GatewayHubs:
    """Owned by one gateway: its surroundings, as finding its place needs them. `keep` runs until cancelled."""

    def __init__(self, dialer: ClientDialer, hubs_max: int, rng: random.Random) -> None:
        self._dialer = dialer
        self._rng = rng
        self._hubs = list(dict.fromkeys(dialer.url.endpoints))[:hubs_max]
        self._connections: dict[Endpoint, Connection] = {}

    def connections(self) -> dict[str, tuple[ProbedConnection, bool]]:
        """Hubs hear where the gateway is: among themselves they cannot tell which of them is near to what."""
        return {
            str(hub): (connection, True)
            for hub, connection in self._connections.items()
            if not connection.lost.done()
        }

    def known(self) -> list[str]:
        return []

    async def dial(self, address: str, *, is_gateway: bool) -> ProbedConnection:
        raise MisuseError("a gateway makes no visits and has no gateway")

    async def keep(self, changed: Callable[[], None]) -> None:
        """Stay connected to all; `changed` is called whenever a connection has come about."""
        try:
            async with asyncio.TaskGroup() as group:
                for hub in self._hubs:
                    group.create_task(self._keep(hub, changed), name=f"gateway-hub-{hub}")
        finally:
            connections, self._connections = self._connections, {}
            for connection in connections.values():
                connection.close()

    async def _keep(self, hub: Endpoint, changed: Callable[[], None]) -> None:
        backoff = Backoff(_FIRST_S, _LONGEST_S, self._rng)
        while True:
            try:
                name = self._rng.randbytes(_LINK_NAME_BYTES).hex().encode()
                connection = await self._dialer.dial(hub, name, self, NowaitLosses())
            except EquipoiseError as error:
                log.warning("cannot measure the hub at %s: %s", hub, error)
            else:
                backoff.reset()
                self._connections[hub] = connection
                changed()
                settings = self._dialer.settings
                await watch(connection, settings.ping_interval_s, settings.pings_unanswered_max)
                loss = connection.lost.result()
                del self._connections[hub]
                log.info("lost the hub at %s: %s", hub, loss)
            await asyncio.sleep(backoff.next_s())

    # What connections tell: nothing is subscribed to, and `lost` is waited for.

    def on_push(self, connection: Connection, push: list[object]) -> None: ...

    def on_read(self, connection: Connection) -> None: ...

    def on_lost(self, connection: Connection, error: EquipoiseError) -> None: ...
