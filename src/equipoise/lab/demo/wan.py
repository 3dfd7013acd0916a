"""A network between sites on one machine: relays that delay all traffic of hubs and gateways.

Loopback has no latency. So each hub and gateway is reached through a relay: a TCP proxy that forwards bytes after the
latency between the two sites. The delays are real: a client that measures a round trip through a relay measures that
time. Only the latencies are chosen (`SiteDelays`).

A relay identifies the caller by the first command of a connection, in which hubs and clients state their names; it
forwards all bytes unchanged. A client whose name has no site has no delay.

Always true: bytes leave a relay in their order, each after the delay at the time of its arrival; a slow reader blocks
its writer.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

import hiredis

__all__ = ["HOST", "Address", "SiteDelays", "Wan", "caller_of"]

HOST = "127.0.0.1"
# The greeting is within the first bytes, or the connection has none.
_GREETING_BYTES_MAX = 4_096
_CONNECT_S = 5.0

Address = tuple[str, int]


@dataclass
class SiteDelays:
    """Sites of all processes, and the latencies between them. `places` may change at any time, because drones fly."""

    # One-way latency between two sites.
    between_s: float
    # One-way latency of the radio link, added for drones.
    access_s: float
    # The site of each hub, gateway and drone, by its stated name.
    places: dict[str, str] = field(default_factory=dict)
    # Processes with a radio link.
    movers: set[str] = field(default_factory=set)

    def one_way_s(self, caller: str, called: str) -> float:
        here, there = self.places.get(caller), self.places.get(called)
        if here is None or there is None:
            return 0.0
        access_s = self.access_s if caller in self.movers else 0.0
        return access_s + (self.between_s if here != there else 0.0)


class Wan:
    """Owned by one demo; runs on its loop. `open` starts a relay, `close` stops all of them."""

    def __init__(self, ways: SiteDelays) -> None:
        self.ways = ways
        self._servers: list[asyncio.AbstractServer] = []
        self._open: set[asyncio.Transport] = set()

    async def open(self, name: str, target: Callable[[], Address]) -> int:
        """Start a relay to the process of this name. Returns its port. Each connection calls `target`."""
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: _Outer(self, name, target), HOST, 0)
        self._servers.append(server)
        return int(server.sockets[0].getsockname()[1])

    async def close(self) -> None:
        for server in self._servers:
            server.close()
        self._servers.clear()
        while self._open:
            for transport in list(self._open):
                transport.abort()
            # The protocols get connection_lost in the next turn of the loop.
            await asyncio.sleep(0)

    def entered(self, transport: asyncio.Transport) -> None:
        self._open.add(transport)

    def left(self, transport: asyncio.Transport) -> None:
        self._open.discard(transport)


class _Half(asyncio.Protocol):
    """One end of a relayed connection: it sends received data to the other end after a delay."""

    def __init__(self, wan: Wan) -> None:
        self._wan = wan
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self.other: _Half | None = None
        # Data to this end with the times at which it is due, in order.
        self._coming: deque[tuple[float, bytes]] = deque()
        self._timer: asyncio.TimerHandle | None = None

    def delay_s(self) -> float:
        """Delay of data from this end to the other."""
        raise AssertionError("subclasses override this")

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport), "a stream"
        self._transport = transport
        self._wan.entered(transport)

    def data_received(self, data: bytes) -> None:
        if self.other is not None:
            self.other.send(data, self._loop.time() + self.delay_s())

    def send(self, data: bytes, due: float) -> None:
        """Write the data when it is due, and never before earlier data."""
        self._coming.append((max(due, self._coming[-1][0]) if self._coming else due, data))
        self._write_due()

    def connection_lost(self, error: Exception | None) -> None:
        if self._transport is not None:
            self._wan.left(self._transport)
        if self._timer is not None:
            self._timer.cancel()
        if self.other is not None:
            # The end of the stream follows all earlier data.
            self.other.send(b"", self._loop.time() + self.delay_s())

    def pause_writing(self) -> None:
        if self.other is not None and self.other._transport is not None:
            self.other._transport.pause_reading()

    def resume_writing(self) -> None:
        if self.other is not None and self.other._transport is not None:
            self.other._transport.resume_reading()

    def _write_due(self) -> None:
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        now = self._loop.time()
        while self._coming and self._coming[0][0] <= now:
            _, data = self._coming.popleft()
            if not data:
                transport.close()
                return
            transport.write(data)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._coming:
            self._timer = self._loop.call_at(self._coming[0][0], self._write_due)


class _Outer(_Half):
    """The end of the client that connects."""

    def __init__(self, wan: Wan, name: str, target: Callable[[], Address]) -> None:
        super().__init__(wan)
        self._name = name
        self._target = target
        self._caller: str | None = None
        # Data received before the caller is known and the target is connected.
        self._held = bytearray()
        self._opening: asyncio.Task[None] | None = None

    def delay_s(self) -> float:
        return self._wan.ways.one_way_s(self._caller or "", self._name)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._opening = self._loop.create_task(self._open())

    def data_received(self, data: bytes) -> None:
        if self._caller is not None and self.other is not None:
            super().data_received(data)
            return
        self._held += data
        self._caller = caller_of(bytes(self._held))
        self._pass_on()

    def connection_lost(self, error: Exception | None) -> None:
        super().connection_lost(error)
        if self.other is None and self._opening is not None:
            self._opening.cancel()

    async def _open(self) -> None:
        inner = _Inner(self._wan, self)
        try:
            async with asyncio.timeout(_CONNECT_S):
                await self._loop.create_connection(lambda: inner, *self._target())
        except (OSError, KeyError):
            # No process runs: close the connection, as if no server listened.
            if self._transport is not None:
                self._transport.abort()
            return
        self.other = inner
        self._pass_on()

    def _pass_on(self) -> None:
        if self._caller is not None and self.other is not None and self._held:
            held, self._held = bytes(self._held), bytearray()
            super().data_received(held)


class _Inner(_Half):
    """The end of the hub or gateway behind the relay."""

    def __init__(self, wan: Wan, outer: _Outer) -> None:
        super().__init__(wan)
        self.other = outer

    def delay_s(self) -> float:
        assert self.other is not None, "made with it"
        return self.other.delay_s()


def caller_of(data: bytes) -> str | None:
    """The name of the hub or client in the first command; empty: it has none; None: more bytes are needed."""
    reader = hiredis.Reader(notEnoughData=False)
    try:
        reader.feed(data)
        words = reader.gets()
    except hiredis.HiredisError:
        return ""
    if words is False:
        return None if len(data) < _GREETING_BYTES_MAX else ""
    match words:
        case [b"EQ.L.HELLO", _, bytes(name), *_] | [b"EQ.L.CAPABILITIES", bytes(name), *_]:
            return name.decode(errors="replace")
        case [b"HELLO", *rest] if b"SETNAME" in rest[:-1]:
            named: object = rest[rest.index(b"SETNAME") + 1]
            return named.decode(errors="replace") if isinstance(named, bytes) else ""
    return ""
