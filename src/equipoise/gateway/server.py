"""The gateway's shell: it listens, and measures hubs meanwhile. Runs on uvloop, asyncio's loop and a simulated one."""

from __future__ import annotations

import asyncio
import logging
import random
import ssl
from typing import cast

from equipoise.client.coordinate_agent import CoordinateAgent
from equipoise.client.settings import ClientSettings
from equipoise.client.url import parse_url
from equipoise.client.wire.dial import ClientDialer, make_tls
from equipoise.coordinates import Coordinate, Finder, FinderSettings
from equipoise.errors import SettingsError
from equipoise.gateway.hubs import GatewayHubs
from equipoise.gateway.session import GatewaySession
from equipoise.gateway.settings import GatewaySettings
from equipoise.resp.replies import error as error_reply

__all__ = ["Gateway"]

log = logging.getLogger("equipoise.gateway")

# Between two probes while its place is sought: a gateway speaks for many clients, so it asks more often than one.
_PROBE_S = 0.25
# Looked for idle clients so many times within the time they may be.
_SWEEPS = 4
# Output that a client has not taken: hundreds of answers.
_UNREAD_BYTES_MAX = 64 * 1024


class Gateway:
    """One gateway. `start`, then `port` says where it listens and `coordinate` where it is; `stop` ends it."""

    def __init__(
        self,
        url: str,
        settings: GatewaySettings | None = None,
        *,
        client: ClientSettings | None = None,
        tls: ssl.SSLContext | None = None,
        rng: random.Random | None = None,
    ) -> None:
        """`url` names the hubs, as for `connect`; `client`: how they are connected to. Raises AddressError."""
        self.settings = settings or GatewaySettings()
        self.port = 0
        self._rng = rng or random.SystemRandom()
        parsed, client = parse_url(url), client or ClientSettings()
        dialer = ClientDialer(parsed, client, tls or make_tls(parsed, client))
        self._hubs = GatewayHubs(dialer, self.settings.hubs_max, self._rng)
        self._finding: CoordinateAgent | None = None
        self._measuring: asyncio.Task[None] | None = None
        self._server: asyncio.AbstractServer | None = None
        self._sweeping: asyncio.TimerHandle | None = None
        self.clients: set[_Client] = set()
        # Clients turned away because there were too many.
        self.refused = 0

    @property
    def coordinate(self) -> Coordinate | None:
        """None until it is known."""
        return None if self._finding is None else self._finding.coordinate

    async def start(self) -> None:
        """Listen, and begin to look for its place. Raises SettingsError if the port is taken."""
        loop, settings = asyncio.get_running_loop(), self.settings
        try:
            self._server = await loop.create_server(lambda: _Client(self), settings.host, settings.port)
        except OSError as problem:
            raise SettingsError(
                f"cannot listen on {settings.host}:{settings.port}: {problem.strerror}. "
                "Choose another port, or 0 for a free one"
            ) from problem
        self.port = int(self._server.sockets[0].getsockname()[1])
        finding = FinderSettings(
            report_s=settings.report_interval_s,
            probe_s=_PROBE_S,
            visit_s=0.0,
            # Nobody guides a gateway.
            gateway_patience_s=0.0,
        )
        self._finding = CoordinateAgent(Finder(self._rng.random, finding), self._hubs)
        self._measuring = loop.create_task(self._hubs.keep(self._finding.wake), name="gateway-hubs")
        self._sweep()

    async def stop(self) -> None:
        """Stop listening, measuring and answering."""
        if self._sweeping is not None:
            self._sweeping.cancel()
        if self._server is not None:
            self._server.close()
        for client in list(self.clients):
            client.close()
        ending = [] if self._finding is None else self._finding.stop()
        if self._measuring is not None:
            self._measuring.cancel()
            ending.append(self._measuring)
        await asyncio.gather(*ending, return_exceptions=True)

    def _sweep(self) -> None:
        """Close whoever has asked nothing for a while."""
        loop, idle_timeout_s = asyncio.get_running_loop(), self.settings.idle_timeout_s
        self._sweeping = loop.call_later(idle_timeout_s / _SWEEPS, self._sweep)
        before = loop.time() - idle_timeout_s
        for client in [client for client in self.clients if client.heard_at < before]:
            client.close()


class _Client(asyncio.Protocol):
    """One connection of a client."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._session = GatewaySession(lambda: gateway.coordinate)
        self._transport: asyncio.Transport | None = None
        self._loop = asyncio.get_running_loop()
        self.heard_at = self._loop.time()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # A cast, not a check: uvloop's transports do not derive from asyncio's.
        self._transport = cast(asyncio.Transport, transport)
        gateway = self._gateway
        if len(gateway.clients) >= gateway.settings.connections_max:
            gateway.refused += 1
            self._transport.write(error_reply("ERR max number of clients reached"))
            self._transport.close()
            return
        gateway.clients.add(self)

    def data_received(self, data: bytes) -> None:
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        self.heard_at = self._loop.time()
        transport.write(self._session.receive(data))
        if self._session.is_over:
            transport.close()
        elif transport.get_write_buffer_size() > _UNREAD_BYTES_MAX:
            # Whoever asks and does not listen.
            transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._gateway.clients.discard(self)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()
