"""Protocols and helpers for the loop suites: everything a test observes is written down here."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

HOST = "127.0.0.1"


class Recorder(asyncio.Protocol):
    """Writes down every call it gets, and lets a test wait for what they add up to."""

    def __init__(self, *, keeps_open: bool = False) -> None:
        self.calls: list[str] = []
        self.data = bytearray()
        self.error: BaseException | None = None
        self._keeps_open = keeps_open
        self._changed = asyncio.Event()
        self._transport: asyncio.Transport | None = None

    @property
    def transport(self) -> asyncio.Transport:
        assert self._transport is not None
        return self._transport

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until a claim about this recorder holds."""
        while not condition():
            self._changed.clear()
            await self._changed.wait()

    async def until_lost(self) -> None:
        await self.until(lambda: "connection_lost" in self.calls)

    async def until_received(self, size: int) -> None:
        await self.until(lambda: len(self.data) >= size)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are not asyncio.Transport by inheritance.
        self._transport = transport  # type: ignore[assignment]
        self._note("connection_made")

    def data_received(self, data: bytes) -> None:
        assert type(data) is bytes
        self.data += data
        if self.calls[-1] != "data_received":
            self._note("data_received")
        self._changed.set()

    def eof_received(self) -> bool:
        self._note("eof_received")
        return self._keeps_open

    def connection_lost(self, exc: Exception | None) -> None:
        self.error = exc
        self._note("connection_lost")

    def pause_writing(self) -> None:
        self._note("pause_writing")

    def resume_writing(self) -> None:
        self._note("resume_writing")

    def _note(self, call: str) -> None:
        self.calls.append(call)
        self._changed.set()


class Acceptor:
    """A factory of recorders for a server; a test waits here for those it has made."""

    def __init__(self, *, keeps_open: bool = False) -> None:
        self.made: list[Recorder] = []
        self._keeps_open = keeps_open
        self._changed = asyncio.Event()

    def __call__(self) -> Recorder:
        self.made.append(Recorder(keeps_open=self._keeps_open))
        self._changed.set()
        return self.made[-1]

    async def first(self) -> Recorder:
        """The first that was made, once it is connected."""
        await self._changed.wait()
        await self.made[0].until(lambda: bool(self.made[0].calls))
        return self.made[0]


@dataclass
class Pair:
    """Both ends of one connection and the server between them."""

    client: Recorder
    server: Recorder
    listener: asyncio.Server


@asynccontextmanager
async def connected(
    *, client_keeps_open: bool = False, server_keeps_open: bool = False
) -> AsyncIterator[Pair]:
    """Connect two recorders over the loop's loopback; abort what a test leaves open."""
    loop = asyncio.get_running_loop()
    accepted = Acceptor(keeps_open=server_keeps_open)
    listener = await loop.create_server(accepted, HOST, 0)
    _, client = await loop.create_connection(
        lambda: Recorder(keeps_open=client_keeps_open), HOST, port_of(listener)
    )
    server = await accepted.first()
    try:
        yield Pair(client, server, listener)
    finally:
        client.transport.abort()
        server.transport.abort()
        await client.until_lost()
        await server.until_lost()
        listener.close()
        await listener.wait_closed()


def port_of(server: asyncio.Server) -> int:
    port = server.sockets[0].getsockname()[1]
    assert isinstance(port, int)
    return port


async def unused_port() -> int:
    """A port that was free a moment ago."""
    server = await asyncio.get_running_loop().create_server(asyncio.Protocol, HOST, 0)
    port = port_of(server)
    server.close()
    await server.wait_closed()
    return port
