"""A server that loses the first bytes of a client gets them again, long before a session would have ended."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from equipoise.store import StoreSettings, open_store
from equipoise.store.embedded.zookeeper_process import EmbeddedSettings, EmbeddedZooKeeper
from support.zookeeper import require_zookeeper

pytestmark = pytest.mark.needs_java


async def _pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter | None) -> None:
    while data := await reader.read(65_536):
        if writer is not None:
            writer.write(data)
    if writer is not None:
        writer.close()


class DeafAtFirst:
    """A proxy in front of a server: it discards the bytes of the first connection."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._writers: list[asyncio.StreamWriter] = []
        self._serving: list[asyncio.Task[None]] = []

    @property
    def connections(self) -> int:
        return len(self._serving)

    def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        work = self._serve(reader, writer) if self._serving else _pipe(reader, None)
        self._serving.append(asyncio.create_task(work))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inward, outward = await asyncio.open_connection("127.0.0.1", self._port)
        self._writers.append(outward)
        await asyncio.gather(_pipe(reader, outward), _pipe(inward, writer))

    async def end(self) -> None:
        for writer in self._writers:
            writer.close()
        await asyncio.gather(*self._serving, return_exceptions=True)
        await asyncio.gather(*(writer.wait_closed() for writer in self._writers), return_exceptions=True)


def test_a_server_that_loses_the_first_bytes_gets_them_again(tmp_path: Path) -> None:
    require_zookeeper()
    asyncio.run(_open_through(tmp_path))


async def _open_through(tmp_path: Path) -> None:
    async with EmbeddedZooKeeper(EmbeddedSettings(directory=tmp_path)) as server:
        deaf = DeafAtFirst(server.port)
        front = await asyncio.start_server(deaf.accept, "127.0.0.1", 0)
        try:
            port = front.sockets[0].getsockname()[1]
            # Kazoo by itself waits as long as a session lasts.
            patience = StoreSettings(session_timeout_s=40.0, request_timeout_s=20.0)
            store = await open_store(f"zk://127.0.0.1:{port}", patience)
            assert deaf.connections >= 2
            await store.close()
        finally:
            front.close()
            await deaf.end()
