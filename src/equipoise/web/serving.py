"""Serve pages on the controller's event loop, over a bounded number of connections.

Connections are bounded in all, per peer, and in the time for sending a request. A connection without a whole request
head ends after `REQUEST_S`, whether new or after earlier requests: a silent connection blocks no slot.

With a certificate, pages are served over HTTPS only. A handshake has `REQUEST_S`, too. After
`Pages.reload_certificate` the new certificate in the same files is used; open connections stay.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from equipoise.errors import SettingsError
from equipoise.hub.settings import Tls
from equipoise.hub.shell.tls import FailedHandshakes, tls_context
from equipoise.web.actions import Actions
from equipoise.web.app import make_app
from equipoise.web.facts import ClusterFacts
from equipoise.web.peer_slots import PeerSlots
from equipoise.web.settings import WebSettings

__all__ = ["CONNECTIONS_MAX", "PER_PEER_MAX", "Pages", "bounded", "serve"]


# A browser opens six, and a stream of events; scripts and scrapers one or two.
CONNECTIONS_MAX = 200
PER_PEER_MAX = 48
# From the first byte, or the connection, to the end of a request's head.
REQUEST_S = 2.0


def bounded(slots: PeerSlots) -> type[H11Protocol]:
    """uvicorn's protocol for connections that share these slots."""

    class BoundedProtocol(H11Protocol):
        _peer: str | None = None
        _deadline: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            name = transport.get_extra_info("peername")
            peer = str(name[0]) if isinstance(name, tuple) else ""
            super().connection_made(transport)
            if not slots.take(peer):
                transport.abort()
                return
            self._peer = peer
            self._watch()

        def connection_lost(self, exc: Exception | None) -> None:
            if self._peer is not None:
                slots.give_back(self._peer)
                self._peer = None
            self._stop_watching()
            super().connection_lost(exc)

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            if self.cycle is not None and not self.cycle.response_complete:
                self._stop_watching()
            else:
                self._watch()

        def _watch(self) -> None:
            if self._deadline is None:
                self._deadline = self.loop.call_later(REQUEST_S, self._give_up)

        def _stop_watching(self) -> None:
            if self._deadline is not None:
                self._deadline.cancel()
                self._deadline = None

        def _give_up(self) -> None:
            self._deadline = None
            if self.cycle is None or self.cycle.response_complete:
                self.transport.abort()

    return BoundedProtocol


STOP_S = 1.0


@dataclass(frozen=True)
class Pages:
    """The pages of a running server."""

    # The address: http://HOST:PORT, or https.
    url: str
    tls: Tls | None = None
    context: ssl.SSLContext | None = None

    def reload_certificate(self) -> None:
        """Load certificate and key from the files again, for new connections. Raises SettingsError."""
        if self.tls is not None and self.context is not None:
            # Tested separately first: a context with half a pair would reject every connection.
            tls_context(self.tls)
            self.context.load_cert_chain(self.tls.certificate, self.tls.key)


@asynccontextmanager
async def serve(facts: ClusterFacts, actions: Actions, settings: WebSettings) -> AsyncIterator[Pages]:
    """Serve while the block runs. Raises SettingsError if the port is taken, or the certificate cannot be used."""
    tls, context = None, None
    if settings.tls_certificate or settings.tls_key:
        tls = Tls(certificate=settings.tls_certificate, key=settings.tls_key)
        context = tls_context(tls, FailedHandshakes(time.monotonic))
    listening = _listen(settings.host, settings.port)
    app = make_app(facts, actions, settings)
    # Open pages hold a stream of events: a shutdown does not wait for them to close.
    config = uvicorn.Config(
        app,
        http=bounded(PeerSlots(CONNECTIONS_MAX, PER_PEER_MAX)),
        ws="none",
        limit_concurrency=CONNECTIONS_MAX + 1,
        log_level="warning",
        access_log=False,
        lifespan="off",
        timeout_graceful_shutdown=int(STOP_S),
    )
    config.load()
    config.ssl = context
    server = _Embedded(config)
    async with asyncio.TaskGroup() as group:
        serving = group.create_task(server.serve(sockets=[listening]))
        refreshing = group.create_task(_refresh(facts, settings.refresh_interval_s))
        try:
            host, port = listening.getsockname()[:2]
            yield Pages(f"{'http' if context is None else 'https'}://{host}:{port}", tls, context)
        finally:
            refreshing.cancel()
            server.should_exit = True
            await asyncio.wait([serving], timeout=2 * STOP_S)
            serving.cancel()
            listening.close()


async def _refresh(facts: ClusterFacts, period_s: float) -> None:
    """Add every view to the charts, also without open pages."""
    while True:
        facts.refresh()
        await asyncio.sleep(period_s)


def _listen(host: str, port: int) -> socket.socket:
    made = socket.socket()
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((host, port))
        made.listen(128)
        made.setblocking(False)
    except OSError as problem:
        made.close()
        raise SettingsError(
            f"cannot serve pages on {host}:{port}: {problem.strerror}; choose another port, or 0 for a free one"
        ) from problem
    return made


class _Embedded(uvicorn.Server):
    """The command handles signals, and a handshake has a deadline of its own."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        config = self.config

        def connection() -> asyncio.Protocol:
            made: asyncio.Protocol = config.http_protocol_class(  # type: ignore[call-arg]  # as uvicorn calls it
                config=config, server_state=self.server_state, app_state=self.lifespan.state
            )
            return made

        assert sockets is not None, "`serve` listens itself"
        timeout_s = None if config.ssl is None else REQUEST_S
        loop = asyncio.get_running_loop()
        self.servers = [
            await loop.create_server(connection, sock=sock, ssl=config.ssl, ssl_handshake_timeout=timeout_s)
            for sock in sockets
        ]
        self.started = True

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield
