"""Small programs for simulated hosts, and protocols that record their calls with times."""

from __future__ import annotations

import asyncio

from equipoise.lab.simulation import Host

PORT = 7000


class Sink(asyncio.Protocol):
    """Takes everything, with the virtual time of each piece."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.pieces: list[tuple[float, bytes]] = []
        self.eof_at: float | None = None
        self.lost_at: float | None = None
        self.error: Exception | None = None
        self.is_writing_paused = False
        self._transport: asyncio.Transport | None = None

    @property
    def transport(self) -> asyncio.Transport:
        assert self._transport is not None
        return self._transport

    @property
    def times(self) -> list[float]:
        return [at for at, _ in self.pieces]

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self.data += data
        self.pieces.append((_now(), data))

    def eof_received(self) -> None:
        self.eof_at = _now()

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost_at = _now()
        self.error = exc

    def pause_writing(self) -> None:
        self.is_writing_paused = True

    def resume_writing(self) -> None:
        self.is_writing_paused = False


async def join(client: Host, server: Host, port: int = PORT) -> tuple[Sink, Sink]:
    """Connect two hosts and return the client's end and the server's, both open."""
    accepted: asyncio.Queue[Sink] = asyncio.Queue()

    class Accepted(Sink):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            super().connection_made(transport)
            accepted.put_nowait(self)

    async def listen() -> None:
        await asyncio.get_running_loop().create_server(Accepted, "0.0.0.0", port)

    await server.spawn(listen())
    near = await client.spawn(dial(server.name, port))
    return near, await accepted.get()


async def dial(name: str, port: int = PORT) -> Sink:
    """Connect to a host that listens already."""
    _, sink = await asyncio.get_running_loop().create_connection(Sink, name, port)
    return sink


def _now() -> float:
    return asyncio.get_running_loop().time()
