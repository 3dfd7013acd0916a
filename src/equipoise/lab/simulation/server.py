"""A listening socket: the result of `create_server` on the simulated loop.

`wait_closed` waits until the server is closed and its last connection lost, as documented from
Python 3.12 on; earlier Pythons return too early, and a simulation must not depend on the version.

`SimulatedSocket` provides the kernel's facts about a connection: the fields of struct tcp_info that hubs read. Its
round trip is the latency of the links without queueing, because hubs use it as the distance of the other end.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import struct
from collections.abc import Callable
from contextvars import Context
from typing import TYPE_CHECKING, Protocol

from equipoise.lab.simulation.topology import LinkSpec

if TYPE_CHECKING:
    from equipoise.lab.simulation.incarnation import Incarnation
    from equipoise.lab.simulation.transport import SimulatedTransport

__all__ = ["ListeningSocket", "SimulatedServer", "SimulatedSocket"]

# Offsets of tcpi_rtt and tcpi_min_rtt in tcp_info, and its length including them.
_RTT_AT, _MIN_RTT_AT, _BYTES = 68, 148, 152


class _Direction(Protocol):
    spec: LinkSpec

    @property
    def latency_s(self) -> float: ...


class _PeerEnd(Protocol):
    @property
    def link(self) -> _Direction: ...


class _End(_PeerEnd, Protocol):
    """One end of a connection: its link and its peer."""

    @property
    def peer(self) -> _PeerEnd: ...


class SimulatedSocket:
    """The socket of one end of a connection, for reads of its state; setting options has no effect."""

    __slots__ = ("_end",)

    def __init__(self, end: _End) -> None:
        self._end = end

    def setsockopt(self, *_arguments: object) -> None:
        """Accepts and ignores all options, such as keep-alives."""

    def getsockopt(self, level: int, option: int, size: int = 0) -> bytes:
        if (level, option) != (socket.IPPROTO_TCP, getattr(socket, "TCP_INFO", None)):
            raise OSError(errno.ENOPROTOOPT, "Protocol not available")
        links = (self._end.link, self._end.peer.link)
        least_s = sum(link.latency_s for link in links)
        mean_s = least_s + sum(link.spec.jitter_s for link in links) / 2
        info = bytearray(_BYTES)
        struct.pack_into("=I", info, _RTT_AT, round(1e6 * mean_s))
        struct.pack_into("=I", info, _MIN_RTT_AT, round(1e6 * least_s))
        return bytes(info[:size])


class ListeningSocket:
    """A listening socket with its bound address."""

    __slots__ = ("_name",)

    family = socket.AF_INET
    type = socket.SOCK_STREAM
    proto = 0

    def __init__(self, name: tuple[str, int]) -> None:
        self._name = name

    def getsockname(self) -> tuple[str, int]:
        return self._name

    def fileno(self) -> int:
        """No descriptor, as after a close."""
        return -1


class SimulatedServer(asyncio.Server):
    """Bound addresses of one incarnation and their protocol factory."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        incarnation: Incarnation,
        names: list[tuple[str, int]],
        *,
        factory: Callable[[], asyncio.BaseProtocol],
        context: Context,
    ) -> None:
        # asyncio.Server.__init__ needs real sockets; every method that would use them is overridden.
        self.factory = factory
        self.context = context
        self.incarnation = incarnation
        self._simulated_loop = loop
        self._names = names
        self._is_serving = False
        self._is_closed = False
        self._open: dict[SimulatedTransport, None] = {}
        self._closed = loop.create_future()
        self._forever: asyncio.Future[None] | None = None
        for name in names:
            incarnation.servers[name] = self

    def __repr__(self) -> str:
        return f"<SimulatedServer {self.incarnation.host.name} {self._names}>"

    @property
    def sockets(self) -> tuple[socket.socket, ...]:
        if self._is_closed:
            return ()
        # Stand-ins with the three methods of a listening socket that programs use.
        return tuple(ListeningSocket(name) for name in self._names)  # type: ignore[misc]

    def get_loop(self) -> asyncio.AbstractEventLoop:
        return self._simulated_loop

    def is_serving(self) -> bool:
        return self._is_serving

    def serve(self) -> None:
        self._is_serving = not self._is_closed

    async def start_serving(self) -> None:
        self.serve()
        await asyncio.sleep(0)

    async def serve_forever(self) -> None:
        if self._forever is not None:
            raise RuntimeError(f"server {self!r} is already being awaited on serve_forever()")
        if self._is_closed:
            raise RuntimeError(f"server {self!r} is closed")
        self.serve()
        self._forever = self._simulated_loop.create_future()
        try:
            await self._forever
        except asyncio.CancelledError:
            self.close()
            await self.wait_closed()
            raise
        finally:
            self._forever = None

    def close(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        self._is_serving = False
        for name in self._names:
            self.incarnation.servers.pop(name, None)
        if self._forever is not None and not self._forever.done():
            self._forever.cancel()
        self._check_closed()

    def close_clients(self) -> None:
        for transport in list(self._open):
            transport.close()

    def abort_clients(self) -> None:
        for transport in list(self._open):
            transport.abort()

    async def wait_closed(self) -> None:
        await asyncio.shield(self._closed)

    def attach(self, transport: SimulatedTransport) -> None:
        """Add an open connection."""
        self._open[transport] = None

    def detach(self, transport: SimulatedTransport) -> None:
        """Remove a lost connection."""
        self._open.pop(transport, None)
        self._check_closed()

    def _check_closed(self) -> None:
        if self._is_closed and not self._open and not self._closed.done():
            self._closed.set_result(None)
