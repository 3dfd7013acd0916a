"""The server of a gateway: serves clients and probes hubs. Runs on uvloop, asyncio and the simulated loop.

`GatewaySession` serves one client, bytes in, bytes out: EQ.WHERE, PING, HELLO, CLIENT and QUIT. Always true: a client
holds at most one unfinished request in memory, of some kilobytes. The gateway keeps one connection to each hub and
reconnects after a loss; it retries a hub that refuses, is silent or unreachable after a growing delay, and continues to
probe the others.
"""

from __future__ import annotations

import asyncio
import logging
import random
import ssl
from collections.abc import Callable
from typing import cast

from equipoise.client.coordinate_agent import CoordinateAgent
from equipoise.client.settings import ClientSettings
from equipoise.client.url import Endpoint, parse_url
from equipoise.client.wire.connection import Connection
from equipoise.client.wire.dial import Backoff, ClientDialer, make_tls, watch
from equipoise.client.wire.requests import NowaitLosses, ProbedConnection
from equipoise.coordinates import Coordinate, Finder, FinderSettings
from equipoise.errors import EquipoiseError, MisuseError, SettingsError
from equipoise.gateway.settings import GatewaySettings
from equipoise.resp import Command, Publishes, RequestLimits, RequestReader
from equipoise.resp.replies import OK, PONG, bulk, error, null, value
from equipoise.resp.replies import error as error_reply

__all__ = ["Gateway", "GatewayHubs", "GatewaySession"]

# EQ.WHERE with both arguments is the longest useful request; stock clients begin with HELLO and a login.
_LIMITS = RequestLimits(args_max=16, payload_bytes_max=512, header_bytes_max=64, inline_bytes_max=512)
# The number of words of that length.
_INPUT_BYTES_MAX = 16 * 1024
_KNOWN = "a gateway has EQ.WHERE, PING, HELLO and QUIT only; publish and subscribe at a hub"


class GatewaySession:
    """Owned by one connection. `is_over`: no more replies; the connection is to be closed."""

    __slots__ = ("_proto", "_reader", "_where", "is_over")

    def __init__(self, where: Callable[[], Coordinate | None]) -> None:
        """`where` returns the gateway's coordinate, if known."""
        self._where = where
        self._reader = RequestReader(_LIMITS)
        self._proto = 2
        self.is_over = False

    def receive(self, data: bytes) -> bytes:
        """The replies to the received bytes."""
        reader, answers = self._reader, []
        while True:
            for words in _commands(reader.feed(data)):
                answers.append(self._answer(words))
                if self.is_over:
                    return b"".join(answers)
            if not reader.has_more:
                break
            data = b""
        problem = reader.error
        if reader.buffered_bytes > _INPUT_BYTES_MAX:
            problem = "Protocol error: request larger than the input limit"
        if problem is not None:
            self.is_over = True
            answers.append(error(f"ERR {problem}"))
        return b"".join(answers)

    def _answer(self, words: Command) -> bytes:
        match [words[0].upper(), *words[1:]]:
            case [b"EQ.WHERE"] | [b"EQ.WHERE", _, _]:
                at = self._where()
                return null(self._proto) if at is None else bulk(at.to_bytes())
            case [b"EQ.WHERE", *_]:
                return error("ERR wrong number of arguments for 'eq.where' command")
            case [b"PING"]:
                return PONG
            case [b"PING", message]:
                return bulk(message)
            case [b"HELLO", *rest]:
                return self._hello(rest)
            case [b"CLIENT", *_]:
                # Names of clients and libraries: ignored here, but stock clients need a reply.
                return OK
            case [b"QUIT", *_]:
                self.is_over = True
                return OK
        name = words[0][:64].decode("utf-8", "replace")
        return error(f"ERR unknown command '{name}'; {_KNOWN}")

    def _hello(self, rest: list[bytes]) -> bytes:
        if rest and rest[0] not in (b"2", b"3"):
            return error("NOPROTO unsupported protocol version")
        if any(word.upper() == b"AUTH" for word in rest):
            return error("ERR a gateway has no users; omit the login")
        self._proto = int(rest[0]) if rest else self._proto
        facts = {"server": "equipoise-gateway", "proto": self._proto, "role": "gateway"}
        return value(facts, self._proto)  # type: ignore[arg-type]  # a dict of values is a value


def _commands(fed: Publishes | list[Command]) -> list[Command]:
    if isinstance(fed, Publishes):
        return [[b"PUBLISH"] for _ in fed.topics]
    return fed


log = logging.getLogger("equipoise.gateway")

_FIRST_S = 0.5
# The longest delay until a restarted hub is probed again.
_LONGEST_S = 30.0
_LINK_NAME_BYTES = 16


class GatewayHubs:
    """The finder's transport of one gateway. `keep` runs until cancelled."""

    def __init__(self, dialer: ClientDialer, hubs_max: int, rng: random.Random) -> None:
        self._dialer = dialer
        self._rng = rng
        self._hubs = list(dict.fromkeys(dialer.url.endpoints))[:hubs_max]
        self._connections: dict[Endpoint, Connection] = {}

    def connections(self) -> dict[str, tuple[ProbedConnection, bool]]:
        """Hubs receive the gateway's coordinate: they need it to know which of them are near."""
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
        """Stay connected to all hubs; `changed` is called after each new connection."""
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

    # Events of connections: there are no subscriptions, and `keep` waits for `lost`.

    def on_push(self, connection: Connection, push: list[object]) -> None: ...

    def on_read(self, connection: Connection) -> None: ...

    def on_lost(self, connection: Connection, error: EquipoiseError) -> None: ...


# Interval of probes until the coordinate is found: a gateway serves many clients, so it probes more often than a
# client.
_PROBE_S = 0.25
# Checks for idle clients per idle time-out.
_SWEEPS = 4
# Output that a client has not read: hundreds of replies.
_UNREAD_BYTES_MAX = 64 * 1024


class Gateway:
    """One gateway. After `start`, `port` is its port and `coordinate` its coordinate; `stop` ends it."""

    def __init__(
        self,
        url: str,
        settings: GatewaySettings | None = None,
        *,
        client: ClientSettings | None = None,
        tls: ssl.SSLContext | None = None,
        rng: random.Random | None = None,
    ) -> None:
        """`url` names the hubs, as for `connect`; `client`: the settings of connections. Raises AddressError."""
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
        self.clients: dict[_Client, None] = {}
        # Clients rejected because of the limit.
        self.refused = 0

    @property
    def coordinate(self) -> Coordinate | None:
        """None until it is found."""
        return None if self._finding is None else self._finding.coordinate

    async def start(self) -> None:
        """Listen, and begin to estimate the coordinate. Raises SettingsError if the port is in use."""
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
            # A gateway does not use another gateway.
            gateway_patience_s=0.0,
        )
        self._finding = CoordinateAgent(Finder(self._rng.random, finding), self._hubs)
        self._measuring = loop.create_task(self._hubs.keep(self._finding.wake), name="gateway-hubs")
        self._sweep()

    async def stop(self) -> None:
        """Stop listening, probing and replying."""
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
        """Close connections without recent requests."""
        loop, idle_timeout_s = asyncio.get_running_loop(), self.settings.idle_timeout_s
        self._sweeping = loop.call_later(idle_timeout_s / _SWEEPS, self._sweep)
        before = loop.time() - idle_timeout_s
        for client in [client for client in self.clients if client.received_at < before]:
            client.close()


class _Client(asyncio.Protocol):
    """One connection of a client."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._session = GatewaySession(lambda: gateway.coordinate)
        self._transport: asyncio.Transport | None = None
        self._loop = asyncio.get_running_loop()
        self.received_at = self._loop.time()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # A cast, not a check: uvloop's transports do not derive from asyncio's.
        self._transport = cast(asyncio.Transport, transport)
        gateway = self._gateway
        if len(gateway.clients) >= gateway.settings.connections_max:
            gateway.refused += 1
            self._transport.write(error_reply("ERR max number of clients reached"))
            self._transport.close()
            return
        gateway.clients[self] = None

    def data_received(self, data: bytes) -> None:
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        self.received_at = self._loop.time()
        transport.write(self._session.receive(data))
        if self._session.is_over:
            transport.close()
        elif transport.get_write_buffer_size() > _UNREAD_BYTES_MAX:
            # A client that sends requests and does not read.
            transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._gateway.clients.pop(self, None)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()
