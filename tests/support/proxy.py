"""A TCP proxy that misbehaves on request: what a test puts between a client and a real server."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Self


class Proxy:
    """Forwards connections to `host:port` from a port of its own."""

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self._server: asyncio.Server | None = None
        self._links: dict[_Link, None] = {}
        self.port = 0
        # Bytes of neither direction pass; they wait. New connections open and stay mute.
        self.is_blocked = False
        # The next bytes of a server are thrown away and their connection broken.
        self.swallows_reply = False

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        self.break_connections()
        await asyncio.gather(*(link.task for link in list(self._links)), return_exceptions=True)

    def break_connections(self) -> int:
        """Reset every connection; return how many there were."""
        links = list(self._links)
        for link in links:
            link.task.cancel()
        return len(links)

    def block(self) -> None:
        self.is_blocked = True
        for link in self._links:
            link.flowing.clear()

    def unblock(self) -> None:
        self.is_blocked = False
        for link in self._links:
            link.flowing.set()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        link = _Link(self, task)
        self._links[link] = None
        try:
            await link.serve(reader, writer, self._target)
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            del self._links[link]
            writer.transport.abort()


class _Link:
    """One connection through the proxy."""

    def __init__(self, proxy: Proxy, task: asyncio.Task[None]) -> None:
        self._proxy = proxy
        self.task = task
        self.flowing = asyncio.Event()
        if not proxy.is_blocked:
            self.flowing.set()

    async def serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, target: tuple[str, int]
    ) -> None:
        far_reader, far_writer = await asyncio.open_connection(*target)
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(self._pump(reader, far_writer, is_reply=False))
                both.create_task(self._pump(far_reader, writer, is_reply=True))
        except* OSError:
            pass
        finally:
            far_writer.transport.abort()

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, is_reply: bool
    ) -> None:
        while data := await reader.read(65536):
            await self.flowing.wait()
            if is_reply and self._proxy.swallows_reply:
                self._proxy.swallows_reply = False
                break
            writer.write(data)
            await writer.drain()
        raise ConnectionResetError
