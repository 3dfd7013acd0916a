"""A scripted peer: a server that implements a part of the protocol, replies as the test defines, and records.

By default it is a hub with fixed positions that accepts every client. `answers` replaces the answer to a command;
an answer of None means silence.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, ParamSpec, cast

import hiredis

import equipoise

P = ParamSpec("P")
TIMEOUT_S = 10.0
WAIT_MORE = object()


def on_loop(test: Callable[P, Awaitable[None]]) -> Callable[P, None]:
    """Run an async test on a loop of its own, in debug mode, within a time-out."""

    @functools.wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        async def bounded() -> None:
            async with asyncio.timeout(3 * TIMEOUT_S):
                await test(*args, **kwargs)

        asyncio.run(bounded(), debug=True)

    return run


def connect(url: str, **settings: Any) -> equipoise.Bus:
    """A bus that does not request the peer's coordinate: that reply would precede those that a script holds back."""
    return equipoise.connect(url, **({"coordinate_enabled": False} | settings))


def bulk(data: bytes) -> bytes:
    return b"$%d\r\n%b\r\n" % (len(data), data)


def push(*items: bytes | int) -> bytes:
    parts = [b">%d\r\n" % len(items)]
    parts += [b":%d\r\n" % item if isinstance(item, int) else bulk(item) for item in items]
    return b"".join(parts)


def message(topic: bytes, epoch: int, n: int, *payloads: bytes) -> bytes:
    return push(b"eq.message", topic, epoch, n, *payloads)


class Session(asyncio.Protocol):
    """One connection to the peer, seen from its side."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self._reader = hiredis.Reader(notEnoughData=WAIT_MORE)
        self.transport: asyncio.Transport | None = None
        self.requests: list[list[bytes]] = []
        self.reads = 0
        self.is_open = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.is_open = True
        self._peer.sessions.append(self)
        self._peer.stir()

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_open = False
        self._peer.stir()

    def data_received(self, data: bytes) -> None:
        self.reads += 1
        self._reader.feed(data)
        while (request := self._reader.gets()) is not WAIT_MORE:
            self.requests.append(request)
            answer = self._peer.answer(self, request)
            if answer is not None:
                self.send(answer)
        self._peer.stir()

    def send(self, data: bytes) -> None:
        assert self.transport is not None
        self.transport.write(data)

    def reset(self) -> None:
        assert self.transport is not None
        self.transport.abort()

    def count(self, command: bytes) -> int:
        return sum(request[0] == command for request in self.requests)


Answer = Callable[[Session, list[bytes]], bytes | None]


def always(reply: bytes | None) -> Answer:
    return lambda session, request: reply


class Peer:
    """The server. `positions` has the position of each topic's stream; unknown topics are at (1, 0)."""

    def __init__(self) -> None:
        self.sessions: list[Session] = []
        self.positions: dict[bytes, tuple[int, int]] = {}
        self.answers: dict[bytes, Answer] = {
            b"HELLO": always(b"%1\r\n+server\r\n+peer\r\n"),
            b"CLIENT": always(b"+OK\r\n"),
            b"PING": always(b"+PONG\r\n"),
            b"PUBLISH": always(b":1\r\n"),
            b"EQ.SUBSCRIBE": self._subscribe,
            b"EQ.PSUBSCRIBE": lambda session, request: push(b"eq.psubscribe", request[1], 1),
            b"EQ.UNSUBSCRIBE": lambda session, request: push(b"eq.unsubscribe", request[1], 0),
            b"EQ.PUNSUBSCRIBE": lambda session, request: push(b"eq.punsubscribe", request[1], 0),
        }
        self._server: asyncio.Server | None = None
        self._stirred = asyncio.Event()
        self.port = 0

    @property
    def url(self) -> str:
        return f"equipoise://127.0.0.1:{self.port}"

    @property
    def last(self) -> Session:
        return self.sessions[-1]

    def _subscribe(self, session: Session, request: list[bytes]) -> bytes:
        epoch, n = self.positions.get(request[1], (1, 0))
        return push(b"eq.subscribe", request[1], 1, epoch, n)

    def answer(self, session: Session, request: list[bytes]) -> bytes | None:
        answer = self.answers.get(request[0])
        if answer is None:
            return b"-ERR unknown command '%b', with args beginning with: \r\n" % request[0]
        return answer(session, request)

    def stir(self) -> None:
        self._stirred.set()

    async def until(self, condition: Callable[[], object]) -> None:
        """Wait until something that the peer can see has come about."""
        async with asyncio.timeout(TIMEOUT_S):
            while not condition():
                self._stirred.clear()
                await self._stirred.wait()

    async def start(self) -> None:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: Session(self), "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Stop listening and close every connection; `start` serves again at the same port."""
        if self._server is None:
            return
        self._server.close()
        for session in self.sessions:
            if session.is_open:
                session.reset()
        await self.until(lambda: not any(session.is_open for session in self.sessions))
        await self._server.wait_closed()
        self._server = None


@asynccontextmanager
async def serving() -> AsyncIterator[Peer]:
    peer = Peer()
    await peer.start()
    try:
        yield peer
    finally:
        await peer.stop()
