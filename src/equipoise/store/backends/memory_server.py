"""Serve a memory tree to remote stores, so that tests can disconnect hubs from it.

Always true: a session has at most one connection, the last one that sent Hello for it, and requests on any other are
not executed; a session ends if the server receives nothing from it for its time-out. The tree outlives the server: a
restarted server gives every session its full time-out again, as ZooKeeper does.
"""

from __future__ import annotations

import asyncio
from typing import cast

from equipoise.errors import EquipoiseError, MisuseError, ProtocolError
from equipoise.store.backends import memory_wire
from equipoise.store.backends.memory_tree import MemoryTree
from equipoise.store.contract import WatchKind, check_data, check_path

__all__ = ["MemoryStoreServer"]

# A client that does not read: with two of the largest replies queued it is disconnected.
OUTPUT_BYTES_MAX = 2 * memory_wire.REPLY_BYTES_MAX
# Sessions are at least as short as ZooKeeper's two ticks of 50 ms, and at most an hour.
TIMEOUT_S_MIN, TIMEOUT_S_MAX = 0.1, 3600.0


class MemoryStoreServer:
    """Start and stop on one loop. `tree` may be shared with stores in this process."""

    def __init__(self, tree: MemoryTree, *, host: str = "127.0.0.1", port: int = 0) -> None:
        self.tree = tree
        self.host = host
        # The port in use after the start.
        self.port = port
        self._server: asyncio.Server | None = None
        self._expiry: asyncio.Task[None] | None = None
        self._opened = asyncio.Event()
        self.connections: dict[_Connection, None] = {}

    async def start(self) -> None:
        loop = asyncio.get_running_loop()
        self.tree.touch_all()
        self._server = await loop.create_server(lambda: _Connection(self), self.host, self.port)
        self.port = self._server.sockets[0].getsockname()[1]
        self._expiry = asyncio.create_task(self._expire())

    async def stop(self) -> None:
        """Stop as in a crash: connections are reset, sessions and nodes stay in the tree."""
        if self._server is None or self._expiry is None:
            return
        self._server.close()
        self._expiry.cancel()
        await asyncio.gather(self._expiry, return_exceptions=True)
        for connection in list(self.connections):
            connection.abort()
        self._server = None

    def on_opened(self) -> None:
        """A new session may be the next to expire."""
        self._opened.set()

    async def _expire(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            due = self.tree.next_expiry()
            try:
                async with asyncio.timeout(None if due is None else max(0.0, due - loop.time())):
                    await self._opened.wait()
                self._opened.clear()
            except TimeoutError:
                self.tree.expire_due()


class _Connection(asyncio.Protocol):
    """One client. It owns the session of its Hello until another connection does."""

    def __init__(self, server: MemoryStoreServer) -> None:
        self._server = server
        self._tree = server.tree
        self._frames = memory_wire.Frames(memory_wire.REQUEST_BYTES_MAX)
        self._session = 0
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._server.connections[self] = None

    def connection_lost(self, exc: Exception | None) -> None:
        self._server.connections.pop(self, None)
        if self._session and self._tree.is_live(self._session):
            self._tree.attach(self._session, None)
        self._session = 0
        self._transport = None

    def data_received(self, data: bytes) -> None:
        try:
            for body in self._frames.feed(data):
                if self._transport is None or self._transport.is_closing():
                    return
                self._take(memory_wire.decode_request(body))
        except ProtocolError:
            self.abort()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def changed(self, path: str, kind: WatchKind) -> None:
        self._send(memory_wire.Changed(path, kind))

    def ended(self) -> None:
        """The client gets the error with its next Hello."""
        self._session = 0
        if self._transport is not None:
            self._transport.close()

    def superseded(self) -> None:
        self._session = 0
        self.abort()

    def _take(self, request: memory_wire.Request) -> None:
        if isinstance(request, memory_wire.Hello):
            self._greet(request)
        elif not self._session:
            raise ProtocolError("a request before Hello")
        else:
            try:
                self._tree.touch(self._session)
                reply: memory_wire.Reply = self._perform(request)
            except EquipoiseError as problem:
                reply = memory_wire.failure(request.n, problem)
            self._send(reply)

    def _greet(self, hello: memory_wire.Hello) -> None:
        if self._session:
            raise ProtocolError("a second Hello")
        if hello.session == 0:
            timeout_s = min(max(hello.timeout_s, TIMEOUT_S_MIN), TIMEOUT_S_MAX)
            self._session = self._tree.open_session(timeout_s, self)
            self._server.on_opened()
        elif self._tree.is_live(hello.session):
            for other in list(self._server.connections):
                if other._session == hello.session:
                    other.superseded()
            self._session = hello.session
            self._tree.attach(self._session, self)
        self._send(memory_wire.Welcome(self._session))

    def _perform(self, request: memory_wire.Request) -> memory_wire.Done:
        tree, session = self._tree, self._session
        match request:
            case memory_wire.Create(n, path, data, ephemeral):
                check_path(path)
                check_data(path, data)
                return memory_wire.Done(n, tree.create(session, path, data, ephemeral))
            case memory_wire.Get(n, path):
                return memory_wire.Done(n, tree.get(path))
            case memory_wire.Set(n, path, data, version):
                check_data(path, data)
                return memory_wire.Done(n, tree.set(session, path, data, version))
            case memory_wire.Delete(n, path, version):
                tree.delete(session, path, version)
                return memory_wire.Done(n)
            case memory_wire.Children(n, path):
                return memory_wire.Done(n, names=tree.children(path))
            case memory_wire.Arm(n, path, kind):
                tree.arm(session, path, kind)
                return memory_wire.Done(n)
            case memory_wire.Ping(n):
                return memory_wire.Done(n)
            case memory_wire.Bye(n):
                self._leave(n)
                return memory_wire.Done(n)
            case memory_wire.Hello():
                raise MisuseError("a second Hello")

    def _leave(self, n: int) -> None:
        session, self._session = self._session, 0
        self._tree.attach(session, None)
        self._tree.end_session(session)

    def _send(self, reply: memory_wire.Reply) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        self._transport.write(memory_wire.encode(reply))
        if self._transport.get_write_buffer_size() > OUTPUT_BYTES_MAX:
            self.abort()
