"""Open one connection: the three packets before the first byte.

The request reaches the other host after one latency and the answer reaches the caller after two. The
accepting program gets the connection after three. A request over a cut link or to a silent host is
repeated on Linux's schedule and fails after about two minutes.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable
from contextvars import Context, copy_context
from typing import TYPE_CHECKING

from equipoise.lab.simulation.outflow import Control
from equipoise.lab.simulation.trace import TraceKind
from equipoise.lab.simulation.transport import SimulatedTransport

if TYPE_CHECKING:
    from equipoise.lab.simulation.incarnation import Incarnation, IncarnationHost
    from equipoise.lab.simulation.network import Network

__all__ = ["Handshake"]

# Seconds between requests: tcp_syn_retries = 6. The last is the wait before the attempt fails.
RETRY_S = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)


class Handshake:
    """One attempt to connect. `waiter` is done after connection_made of the caller's protocol."""

    def __init__(
        self,
        network: Network,
        caller: Incarnation,
        target: IncarnationHost,
        address: tuple[str, int],
        factory: Callable[[], asyncio.BaseProtocol],
    ) -> None:
        self._network = network
        self._caller = caller
        self._target = target
        self._address = address
        self._factory = factory
        self._context: Context = copy_context()
        self._out = network.link(caller.host, target)
        self._back = network.link(target, caller.host)
        self._retries = 0
        self.waiter: asyncio.Future[None] = network.loop.create_future()
        self.transport: SimulatedTransport | None = None

    def request(self) -> None:
        """Send the request, or schedule a retry if it cannot reach the host."""
        if self.waiter.done() or self._caller.is_dead:
            return
        loop = self._network.loop
        if self._out.cut_at is not None or self._back.cut_at is not None or self._target.is_silent:
            self._retry()
        else:
            loop.timeline.add(self._out.arrival(loop.now, 0), self._arrive)

    def abandon(self) -> None:
        """The caller has stopped waiting."""
        if self.transport is not None:
            self.transport.abort()

    def _retry(self) -> None:
        loop = self._network.loop
        if self._retries == len(RETRY_S):
            self.waiter.set_exception(TimeoutError(errno.ETIMEDOUT, f"Connect call failed {self._address}"))
            return
        loop.timeline.add(loop.now + RETRY_S[self._retries], self.request)
        self._retries += 1

    def _arrive(self) -> None:
        if self.waiter.done() or self._caller.is_dead:
            return
        if self._out.cut_at is not None or self._target.is_silent:
            self._retry()
            return
        loop = self._network.loop
        answered_at = self._back.arrival(loop.now, 0)
        server = self._target.server_at(self._address)
        if server is None:
            loop.timeline.add(answered_at, self._refused)
            return
        near, far = self._pair(server.context.copy(), server.factory)
        far.server = server
        self.transport = near
        near.arriving.append(Control.CONNECTED)
        far.arriving.append(Control.ACCEPTED)
        accepted_at = self._out.arrival(answered_at, 0)
        near.delay_arrivals_until(accepted_at)
        far.delay_arrivals_until(accepted_at)
        loop.timeline.add(answered_at, near)
        loop.timeline.add(accepted_at, far)

    def _refused(self) -> None:
        if self.waiter.done():
            return
        self._network.loop.record(TraceKind.REFUSE, self._caller.host.number)
        self.waiter.set_exception(
            ConnectionRefusedError(errno.ECONNREFUSED, f"Connect call failed {self._address}")
        )

    def _pair(
        self, far_context: Context, far_factory: Callable[[], asyncio.BaseProtocol]
    ) -> tuple[SimulatedTransport, SimulatedTransport]:
        """Create both ends, the caller's first."""
        loop = self._network.loop
        caller, target = self._caller, self._target.incarnation
        is_loopback = self._address[0].startswith("127.")
        here = (self._address[0] if is_loopback else caller.host.address, caller.host.next_port())
        near = SimulatedTransport(
            loop,
            caller,
            self._out,
            self._context,
            factory=self._factory,
            extra={"sockname": here, "peername": self._address},
        )
        far = SimulatedTransport(
            loop,
            target,
            self._back,
            far_context,
            factory=far_factory,
            extra={"sockname": self._address, "peername": here},
        )
        near.waiter = self.waiter
        self._network.join(near, far)
        return near, far
