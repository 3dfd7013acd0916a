"""A store whose nodes are in a `MemoryStoreServer`, over asyncio streams: real ones without TLS, or simulated.

The driver of `ConnectedStore` for it: connect, send Hello for the present session, and repeat that whenever the
connection is lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import cast

from equipoise.errors import NoNodeError, ProtocolError
from equipoise.store.backends import memory_wire
from equipoise.store.backends.channel import ChannelGoneError, StoreChannel
from equipoise.store.backends.retry import ConnectedStore
from equipoise.store.contract import Answer, Node, Read, StoreSettings, WatchKind

__all__ = ["RemoteMemoryStore"]

# Attempts per session time-out while the server is unreachable: enough to use a session's last moments.
_TRIES_PER_SESSION = 20
# The part of a session that one attempt may take: a lost first packet must not use up the rest of the session.
_TRY_RATIO = 0.2
_GOODBYE_TIMEOUT_S = 1.0

# All requests but Hello.
Numbered = (
    memory_wire.Create
    | memory_wire.Get
    | memory_wire.Set
    | memory_wire.Delete
    | memory_wire.Children
    | memory_wire.Arm
    | memory_wire.Ping
    | memory_wire.Bye
)


class RemoteMemoryStore(ConnectedStore):
    """One session, over one connection at a time."""

    def __init__(self, host: str, port: int, settings: StoreSettings | None = None) -> None:
        super().__init__(settings or StoreSettings())
        self._address = (host, port)
        # The session of the next Hello; 0 for a new one.
        self._resumed = 0
        self._wire: _WireChannel | None = None
        self._connector: asyncio.Task[None] | None = None

    def _start(self) -> None:
        self._connector = asyncio.create_task(self._connect_again_and_again())

    async def _stop(self, is_graceful: bool) -> None:
        if self._connector is not None:
            self._connector.cancel()
            await asyncio.gather(self._connector, return_exceptions=True)
        channel = self._wire
        if channel is None:
            return
        if is_graceful:
            try:
                async with asyncio.timeout(_GOODBYE_TIMEOUT_S):
                    await channel.leave()
            except (ChannelGoneError, TimeoutError):
                pass  # The session ends by time-out instead.
        channel.abort()

    def _drop(self, channel: StoreChannel) -> None:
        if self._wire is channel and self._wire is not None:
            self._wire.abort()

    def _forget_session(self) -> None:
        self._resumed = 0
        if self._wire is not None:
            self._wire.abort()

    async def _connect_again_and_again(self) -> None:
        pause_s = self.settings.session_timeout_s / _TRIES_PER_SESSION
        while True:
            try:
                channel = await self._connect()
            except (OSError, TimeoutError, ChannelGoneError):
                await asyncio.sleep(pause_s)
                continue
            if channel is not None:
                await channel.gone.wait()
                self._on_suspended(channel)

    async def _connect(self) -> _WireChannel | None:
        """A connected channel; None if the session has ended, and a new one has to be requested."""
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(self.settings.session_timeout_s * _TRY_RATIO):
            _, channel = await loop.create_connection(lambda: _WireChannel(self), *self._address)
            asked_at, resumed = loop.time(), self._resumed
            try:
                session = await channel.greet(resumed, self.settings.session_timeout_s)
            except BaseException:
                channel.abort()
                raise
        if self._resumed != resumed:
            # Declared lost during the Hello: that session must not be used again.
            channel.abort()
            return None
        if session == 0:
            channel.abort()
            self._on_lost()
            return None
        self._resumed = session
        self._wire = channel
        self._on_connected(channel, asked_at)
        return channel

    def changed(self, path: str, kind: WatchKind) -> None:
        self._on_changed(path, kind)


class _WireChannel(asyncio.Protocol):
    """Requests by number over one connection."""

    def __init__(self, store: RemoteMemoryStore) -> None:
        self._store = store
        self.session = 0
        # Set once the connection is lost.
        self.gone = asyncio.Event()
        self._frames = memory_wire.Frames(memory_wire.REPLY_BYTES_MAX)
        self._transport: asyncio.Transport | None = None
        # Set once Hello has its reply, or never will.
        self._greeted = asyncio.Event()
        self._welcome: memory_wire.Welcome | None = None
        # Requests without a reply, by number.
        self._asked: dict[int, asyncio.Future[memory_wire.Done]] = {}
        self._last_n = 0

    # The connection.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self.gone.set()
        self._greeted.set()
        for future in self._asked.values():
            # A cancelled request has no caller.
            if not future.done():
                future.set_exception(ChannelGoneError())

    def data_received(self, data: bytes) -> None:
        try:
            for body in self._frames.feed(data):
                self._take(memory_wire.decode_reply(body))
        except ProtocolError:
            self.abort()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def _take(self, reply: memory_wire.Reply) -> None:
        match reply:
            case memory_wire.Welcome():
                self._welcome = reply
                self._greeted.set()
            case memory_wire.Changed(path, kind):
                self._store.changed(path, kind)
            case memory_wire.Done(n):
                future = self._asked.get(n)
                if future is not None and not future.done():
                    future.set_result(reply)
            case memory_wire.Failed(n):
                future = self._asked.get(n)
                if future is not None and not future.done():
                    future.set_exception(memory_wire.error_of(reply))

    # Requests.

    async def greet(self, session: int, timeout_s: float) -> int:
        """The session in use from now on; 0 if the requested one has ended."""
        self._send(memory_wire.Hello(session, timeout_s))
        await self._greeted.wait()
        if self._welcome is None:
            raise ChannelGoneError
        self.session = self._welcome.session
        return self.session

    async def leave(self) -> None:
        await self._ask(memory_wire.Bye(self._next()))

    async def ping(self) -> None:
        await self._ask(memory_wire.Ping(self._next()))

    async def sync(self) -> None:
        """There is one server."""
        await self.ping()

    async def create(self, path: str, data: bytes, ephemeral: bool) -> Node:
        return _node_of(await self._ask(memory_wire.Create(self._next(), path, data, ephemeral)))

    async def get(self, path: str) -> Node:
        return _node_of(await self._ask(memory_wire.Get(self._next(), path)))

    async def set(self, path: str, data: bytes, version: int | None) -> Node:
        return _node_of(await self._ask(memory_wire.Set(self._next(), path, data, version)))

    async def delete(self, path: str, version: int | None) -> None:
        await self._ask(memory_wire.Delete(self._next(), path, version))

    async def children(self, path: str) -> tuple[str, ...]:
        return (await self._ask(memory_wire.Children(self._next(), path))).names

    async def arm(self, path: str, kind: WatchKind) -> None:
        await self._ask(memory_wire.Arm(self._next(), path, kind))

    async def read(self, reads: Sequence[Read], watch: Read | None = None) -> tuple[Answer, ...]:
        arming = [memory_wire.Arm(self._next(), watch.path, watch.kind)] if watch is not None else []
        asking = [
            memory_wire.Get(self._next(), read.path)
            if read.kind is WatchKind.DATA
            else memory_wire.Children(self._next(), read.path)
            for read in reads
        ]
        answers = await self._ask_all([*arming, *asking])
        return tuple(
            _answer_of(read, answer) for read, answer in zip(reads, answers[len(arming) :], strict=True)
        )

    def _next(self) -> int:
        self._last_n += 1
        return self._last_n

    async def _ask(self, request: Numbered) -> memory_wire.Done:
        try:
            return await self._begin(request)
        finally:
            del self._asked[request.n]

    async def _ask_all(self, requests: Sequence[Numbered]) -> list[memory_wire.Done | BaseException]:
        """Send them one right after the other, and wait for all."""
        try:
            return await asyncio.gather(*map(self._begin, requests), return_exceptions=True)
        finally:
            for request in requests:
                self._asked.pop(request.n, None)

    def _begin(self, request: Numbered) -> asyncio.Future[memory_wire.Done]:
        future = self._asked[request.n] = asyncio.get_running_loop().create_future()
        self._send(request)
        return future

    def _send(self, request: memory_wire.Request) -> None:
        if self._transport is None or self._transport.is_closing():
            raise ChannelGoneError
        self._transport.write(memory_wire.encode(request))


def _answer_of(read: Read, answer: memory_wire.Done | BaseException) -> Answer:
    if isinstance(answer, NoNodeError):
        return None
    if isinstance(answer, BaseException):
        raise answer
    return _node_of(answer) if read.kind is WatchKind.DATA else answer.names


def _node_of(done: memory_wire.Done) -> Node:
    if done.node is None:
        raise ProtocolError("a store's reply lacks its node")
    return done.node
