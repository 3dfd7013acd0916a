"""Answer asyncio's socket calls with the simulated network."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Callable, Sequence
from contextvars import copy_context
from typing import TYPE_CHECKING, Any

from equipoise.errors import SimulationError
from equipoise.lab.simulation.engine import Engine
from equipoise.lab.simulation.incarnation import HERE, Incarnation
from equipoise.lab.simulation.server import SimulatedServer

if TYPE_CHECKING:
    from equipoise.lab.simulation.network import Network
    from equipoise.lab.simulation.transport import SimulatedTransport

__all__ = ["SocketCalls"]

Factory = Callable[[], asyncio.BaseProtocol]


class SocketCalls(Engine):
    """The part of the loop that opens and accepts connections."""

    network: Network
    # Where code belongs that names no host.
    outside: Incarnation

    async def getaddrinfo(  # type: ignore[override]  # results are IPv4 only
        self,
        host: str | bytes | None,
        port: str | bytes | int | None,
        *,
        family: int = 0,
        type: int = 0,
        proto: int = 0,
        flags: int = 0,
    ) -> list[tuple[socket.AddressFamily, socket.SocketKind, int, str, tuple[str, int]]]:
        """The one address of a simulated host, or gaierror as the real call."""
        name = host.decode() if isinstance(host, bytes) else host
        address = self.network.resolve(name, is_passive=bool(flags & socket.AI_PASSIVE))
        entry = (address, int(port or 0))
        return [(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", entry)]

    async def create_connection(  # type: ignore[override]  # asyncio's overloads tell kinds of sock apart
        self,
        protocol_factory: Factory,
        host: str | None = None,
        port: int | None = None,
        *,
        ssl: object = None,
        sock: object = None,
        **_: Any,
    ) -> tuple[SimulatedTransport, asyncio.BaseProtocol]:
        _refuse_special(ssl, sock)
        if host is None and port is None:
            raise ValueError("host and port was not specified and no sock specified")
        address = (self.network.resolve(host), int(port or 0))
        handshake = self.network.connect(protocol_factory, address)
        try:
            await handshake.waiter
        except BaseException:
            handshake.abandon()
            raise
        transport = handshake.transport
        assert transport is not None
        return transport, transport.get_protocol()

    async def create_server(
        self,
        protocol_factory: Factory,
        host: str | Sequence[str] | None = None,
        port: int | None = None,
        *,
        ssl: object = None,
        sock: object = None,
        start_serving: bool = True,
        **_: Any,
    ) -> SimulatedServer:
        _refuse_special(ssl, sock)
        names = [host] if host is None or isinstance(host, str) else list(host)
        incarnation = HERE.get(self.outside)
        bound = [self._bind(name, port or 0) for name in names]
        server = SimulatedServer(self, incarnation, bound, factory=protocol_factory, context=copy_context())
        if start_serving:
            server.serve()
            await asyncio.sleep(0)
        return server

    def _bind(self, name: str | None, port: int) -> tuple[str, int]:
        """Find a free address of the current host."""
        incarnation = HERE.get(self.outside)
        address = self.network.resolve(name, is_passive=True)
        if address not in ("0.0.0.0", incarnation.host.address) and not address.startswith("127."):
            raise OSError(errno.EADDRNOTAVAIL, f"error while attempting to bind on address {(address, port)}")
        if port == 0:
            port = incarnation.host.next_port()
        elif any(taken == port and at in (address, "0.0.0.0") for at, taken in incarnation.servers):
            raise OSError(
                errno.EADDRINUSE,
                f"error while attempting to bind on address {(address, port)}: address already in use",
            )
        return address, port


def _refuse_special(ssl: object, sock: object) -> None:
    if ssl:
        raise SimulationError("TLS cannot be simulated; test it on a real loop")
    if sock is not None:
        raise SimulationError("a real socket cannot be simulated; pass host and port")
