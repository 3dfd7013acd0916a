"""Listen for clients, on the event loop's transports or on compiled wires.

Wires (`_sockets.c`) are compiled transports, with half the CPU cost of the loop's transports for clients that publish
single messages or wait. They are used if they were built, on Linux with uvloop, for connections without TLS; otherwise,
and with EQUIPOISE_PURE=1 in the environment, the loop's own server listens.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import socket
from typing import TYPE_CHECKING, Any, Protocol

from equipoise.access import Action
from equipoise.clock import is_uvloop
from equipoise.hub.cluster.stall_watch import StallWatch
from equipoise.hub.cluster.topic_limit import TopicLimit
from equipoise.hub.data.audience import Audience
from equipoise.hub.data.reply import ReplyMode
from equipoise.hub.data.session import Session
from equipoise.hub.data.topic import Topic
from equipoise.hub.logs.shared_read import SharedRead
from equipoise.hub.shell.accepted_connection import AcceptedConnection, tune
from equipoise.hub.telemetry.stats import Stats
from equipoise.resp import RequestLimits, RequestReader
from equipoise.resp.replies import plain_encoder

if TYPE_CHECKING:
    from equipoise.hub.core import HubCore

__all__ = ["ListeningPort", "has_wires", "listen", "wires"]

log = logging.getLogger("equipoise.hub")

try:
    from equipoise.hub.shell import _sockets as wires

    _TYPES = (
        Session,
        RequestReader,
        RequestLimits,
        Stats,
        Topic,
        Audience,
        TopicLimit,
        StallWatch,
        SharedRead,
    )
    wires.learn(*_TYPES, plain_encoder(2, b"message", b""), ReplyMode.ON, Action.PUBLISH)
    _ = wires.Poller.hold, wires.Poller.turn, wires.Poller.gather, wires.Poller.gathered, wires.Poller.share
except ImportError:
    # Not built: no compiler, or another system.
    wires = None  # type: ignore[assignment]  # see above
except (AttributeError, TypeError) as _stale:
    log.warning("connections are served in Python: _sockets.c has changed since it was built (%s)", _stale)
    wires = None  # type: ignore[assignment]  # as if not built

# Connections waiting in the kernel to be accepted, as in Redis.
ACCEPT_BACKLOG = 511
# Most connections accepted in one turn, so that connected clients do not wait for many new ones.
_ACCEPTS = 64
# Seconds without accepting after the process ran out of descriptors, as in asyncio.
_REST_S = 1.0
_EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


class ListeningPort(Protocol):
    """A listening port. `close` accepts no more connections; existing ones stay."""

    @property
    def port(self) -> int: ...
    def close(self) -> None: ...


def has_wires(loop: asyncio.AbstractEventLoop) -> bool:
    """Whether connections are served by wires."""
    return wires is not None and is_uvloop(loop) and os.environ.get("EQUIPOISE_PURE", "0") in ("", "0")


async def listen(core: HubCore, host: str, port: int, options: dict[str, Any]) -> ListeningPort:
    """Accept connections for the hub. Raises OSError if the address cannot be listened on.

    `options`: TLS, as the loop's `create_server` takes it.
    """
    loop = asyncio.get_running_loop()
    if options or not has_wires(loop):
        server = await loop.create_server(
            lambda: AcceptedConnection(core), host, port, backlog=ACCEPT_BACKLOG, **options
        )
        return LoopPort(server)
    found = await loop.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    listener = WirePort(core, loop)
    try:
        for family, _, _, _, address in dict.fromkeys(found):
            listener.listen(_bound(family, address))
    except OSError:
        listener.close()
        raise
    return listener


class LoopPort:
    """The loop's own server."""

    def __init__(self, server: asyncio.Server) -> None:
        self._server = server
        self.port = int(server.sockets[0].getsockname()[1])

    def close(self) -> None:
        self._server.close()


class WirePort:
    """Listening sockets whose connections are wires. The poller ends when listening and the last connection have."""

    def __init__(self, core: HubCore, loop: asyncio.AbstractEventLoop) -> None:
        self._core = core
        self._loop = loop
        self._poller = wires.Poller(core, loop.call_soon, self._report)
        self._poller.gather(core.commands.add_gathered)
        self._poller.share(core.turns.used, core.turns.limit_of)
        self._sockets: list[socket.socket] = []
        self._connections = 0
        self._is_closed = False
        self.port = 0
        core.standstill.on_hold.append(self._poller.hold)
        loop.add_reader(self._poller.fileno(), self._poller.run)
        loop.add_reader(self._poller.limited_fileno(), self._poller.run_limited)
        core.shell.turns = self._poller

    def listen(self, sock: socket.socket) -> None:
        # Accepted sockets inherit these options.
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        tune(sock, self._core.limits.keepalive_s)
        self._sockets.append(sock)
        self.port = self.port or int(sock.getsockname()[1])
        self._loop.add_reader(sock.fileno(), self._accept, sock)

    def close(self) -> None:
        self._is_closed = True
        for sock in self._sockets:
            self._loop.remove_reader(sock.fileno())
            sock.close()
        self._sockets.clear()
        self._end_if_done()

    def ended(self) -> None:
        """One of the connections has closed."""
        self._connections -= 1
        self._end_if_done()

    def _end_if_done(self) -> None:
        if self._is_closed and not self._connections and self._poller.fileno() >= 0:
            self._loop.remove_reader(self._poller.fileno())
            self._loop.remove_reader(self._poller.limited_fileno())
            self._core.standstill.on_hold.remove(self._poller.hold)
            self._poller.close()

    def _accept(self, sock: socket.socket) -> None:
        for _ in range(_ACCEPTS):
            try:
                accepted, _ = sock.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as problem:
                if problem.errno not in _EXHAUSTED:
                    raise
                log.error("cannot accept connections for %g s: %s", _REST_S, problem.strerror)
                self._loop.remove_reader(sock.fileno())
                self._loop.call_later(_REST_S, self._accept_again, sock)
                return
            self._serve(accepted)

    def _accept_again(self, sock: socket.socket) -> None:
        if sock in self._sockets:
            self._loop.add_reader(sock.fileno(), self._accept, sock)

    def _serve(self, accepted: socket.socket) -> None:
        accepted.setblocking(False)
        connection = WireConnection(self._core, self)
        wire = self._poller.attach(accepted.detach(), connection, connection.session)
        self._connections += 1
        connection.connection_made(wire)
        wire.resume_reading()

    def _report(self, problem: BaseException) -> None:
        self._loop.call_exception_handler({"message": "a connection's callback failed", "exception": problem})


class WireConnection(AcceptedConnection):
    """A connection on a wire, counted by its listener."""

    __slots__ = ("_port",)

    def __init__(self, core: HubCore, port: WirePort) -> None:
        super().__init__(core, is_on_wire=True)
        self._port = port

    def tune(self, transport: asyncio.Transport) -> None:
        """Nothing: the listening socket has the options."""

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._port.ended()


def _bound(family: int, address: Any) -> socket.socket:
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        sock.setblocking(False)
        sock.bind(address)
        sock.listen(ACCEPT_BACKLOG)
    except OSError:
        sock.close()
        raise
    return sock
