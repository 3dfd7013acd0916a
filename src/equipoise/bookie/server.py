"""The sockets of a bookie: frames in, answers out, one group of entries in a disk write at a time.

While a group is written and synced, the next one is collected: the slower the disk, the larger the groups. On a fast
disk (`loop_sync_s`) the event loop writes and syncs, and the next group collects in the kernel's buffers: there, the
switch to a thread and back costs more than the sync. Otherwise a thread writes and syncs.

Always true: a request is answered with OK only after its sync. After a failed sync no request is answered, every
connection is closed and `run` raises, because the page cache of Linux may differ from the disk then. The event loop and
the thread never use the disk at the same time.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
import sys
from collections import deque
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import cast

from equipoise.bookie.engine import BookieEngine, Group
from equipoise.bookie.segments import SealedSegment
from equipoise.clock import clock_of, is_uvloop
from equipoise.disk import Disk
from equipoise.errors import DiskFullError, EquipoiseError, ProtocolError
from equipoise.ledger.wire import (
    AddRequest,
    AuthRequest,
    BatchRequest,
    FrameReader,
    ReadRequest,
    decode_request,
    encode_auth_answer,
    plain_add,
)

__all__ = ["BookieConnection", "BookieServer", "Judge"]

log = logging.getLogger("equipoise.bookie")

# Sync times that are kept.
_SYNCS_KEPT = 1_000


class BookieConnection(asyncio.Protocol):
    """One client. Stops reading while its answers are not read."""

    def __init__(self, server: BookieServer) -> None:
        self._server = server
        self._reader = FrameReader()
        # Requests before the login are refused.
        self._is_known = server.judge is None
        self._judging: asyncio.Task[None] | None = None
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._server.connections[self] = None
        if self._server.sends_at_once and transport.get_extra_info("sslcontext") is None:
            # By default uvloop sends short data at the end of the turn.
            self._transport.set_write_buffer_limits(high=0)

    def connection_lost(self, exc: Exception | None) -> None:
        self._server.connections.pop(self, None)
        self._transport = None
        if self._judging is not None:
            self._judging.cancel()

    def data_received(self, data: bytes) -> None:
        add = plain_add(data) if self._is_known and not self._reader.buffered_bytes else None
        if add is not None:
            answer = self._server.engine.submit(self, add)
            if answer is not None:
                self.send([answer])
            self._server.wake()
            return
        answers: list[bytes] = []
        try:
            for frame in self._reader.feed(data):
                request = decode_request(frame)
                if isinstance(request, AuthRequest) or not self._is_known:
                    self._log_in(request)
                    continue
                answer = self._server.engine.submit(self, request)
                if answer is not None:
                    answers.append(answer)
        except ProtocolError as error:
            log.warning("connection closed: %s", error)
            self.drop()
            return
        if answers:
            self.send(answers)
        self._server.wake()

    def _log_in(self, request: AddRequest | ReadRequest | BatchRequest | AuthRequest) -> None:
        """Raises ProtocolError if the request is not a login, or a second one."""
        judge = self._server.judge
        if not isinstance(request, AuthRequest) or self._judging is not None or judge is None:
            raise ProtocolError("a request before the login, or a login where the bookie requires none")
        self._judging = asyncio.get_running_loop().create_task(self._judge(judge, request))

    async def _judge(self, judge: Judge, request: AuthRequest) -> None:
        refusal = await judge(request.user, request.password)
        self._is_known = not refusal
        self.send([encode_auth_answer(refusal)])
        if refusal:
            log.warning("user %r refused: %s", request.user, refusal)
            if self._transport is not None:
                self._transport.close()

    def pause_writing(self) -> None:
        if self._transport is not None:
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        if self._transport is not None:
            self._transport.resume_reading()

    def send(self, answers: list[bytes]) -> None:
        if self._transport is not None:
            self._transport.write(answers[0] if len(answers) == 1 else b"".join(answers))

    def drop(self) -> None:
        if self._transport is not None:
            self._transport.abort()


# The receiver of an answer; None: the bookie itself, which compacts a segment.
Asker = BookieConnection | None


# Returns why a user is refused; empty: accepted.
Judge = Callable[[str, str], Awaitable[str]]


class BookieServer:
    """Serves one engine. `run` writes groups until it is cancelled or the disk fails."""

    def __init__(
        self,
        disk: Disk,
        engine: BookieEngine[Asker],
        judge: Judge | None = None,
        *,
        loop_sync_s: float = 0.0,
    ) -> None:
        # None: every client is served.
        self.judge = judge
        self.disk = disk
        self.engine = engine
        self.connections: dict[BookieConnection, None] = {}
        self._wakened = asyncio.Event()
        self._idle: list[asyncio.Future[None]] = []
        # One thread, so that writes reach the disk in the order of the calls.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="disk")
        self._servers: list[asyncio.AbstractServer] = []
        # Seconds that recent groups took to be written and synced.
        self._sync_s: deque[float] = deque(maxlen=_SYNCS_KEPT)
        self._loop = asyncio.get_running_loop()
        self._clock = clock_of(self._loop)
        self._loop_sync_s = loop_sync_s
        # Whether the event loop writes a group in its next turn; and the error of such a write, raised by `run`.
        self._is_scheduled = False
        self.sends_at_once = is_uvloop(self._loop)
        self._problem: EquipoiseError | None = None
        # Calls that run or wait in the thread; and whether `run` writes groups, or has ended.
        self._in_thread = 0
        self._is_at_work = False

    @property
    def sync_s_p99(self) -> float:
        """99th percentile of recent group writes, in seconds; 0 without any."""
        times = sorted(self._sync_s)
        return times[len(times) * 99 // 100] if times else 0.0

    async def bind(self, host: str, port: int, tls: ssl.SSLContext | None = None, local: str = "") -> int:
        """Bind the port (0: any free port) and the Unix socket. Connections are accepted after `accept`."""
        loop = asyncio.get_running_loop()
        server = await loop.create_server(
            lambda: BookieConnection(self), host, port, ssl=tls, start_serving=False
        )
        self._servers.append(server)
        if local and tls is None and sys.platform == "linux" and is_uvloop(loop):
            try:
                self._servers.append(
                    await loop.create_unix_server(lambda: BookieConnection(self), local, start_serving=False)
                )
            except OSError as problem:
                log.warning("no Unix socket, clients use TCP: %s", problem)
        found: int = server.sockets[0].getsockname()[1]
        return found

    async def accept(self) -> None:
        """Start to accept connections, after the registration: clients compare it when they connect."""
        for server in self._servers:
            await server.start_serving()

    def wake(self) -> None:
        if not self.engine.has_work or self._is_scheduled:
            return
        if not self._is_quick:
            self._wakened.set()
        elif len(self.connections) == 1:
            # This turn receives nothing else.
            self._write_here()
        else:
            # In its own turn, after everything that this turn receives.
            self._is_scheduled = True
            self._loop.call_soon(self._write_later)

    @property
    def _is_quick(self) -> bool:
        """Whether the event loop may write to the disk. The thread writes the first group."""
        if self._is_at_work or self._in_thread or self._problem is not None or not self._sync_s:
            return False
        # One slow sync is noise, two in a row are a slow disk.
        return self._sync_s[-1] < self._loop_sync_s or (
            len(self._sync_s) > 1 and self._sync_s[-2] < self._loop_sync_s
        )

    def _write_later(self) -> None:
        self._is_scheduled = False
        if self._is_at_work:
            return
        if self.engine.has_work and self._is_quick:
            self._write_here()
        elif self._problem is not None or self._idle or self.engine.has_work:
            self._wakened.set()

    def _write_here(self) -> None:
        """Write the waiting requests as one group. `run` handles what remains, and errors."""
        try:
            group = self.engine.take()
            if group is not None:
                began_at = self._clock()
                if group.parts:
                    self._write(group)
                    self._sync_s.append(self._clock() - began_at)
                self._answer(self.engine.commit(group))
        except EquipoiseError as problem:
            self._problem = problem
        if self._problem is not None or self._idle or self.engine.has_work:
            self._wakened.set()

    async def run(self) -> None:
        """Write groups. Raises DiskFailedError after the disk failed."""
        try:
            while True:
                await self._wakened.wait()
                self._wakened.clear()
                if self._problem is not None:
                    raise self._problem
                self._is_at_work = True
                while self.engine.has_work:
                    await self._write_group()
                self._is_at_work = False
                idle, self._idle = self._idle, []
                for future in idle:
                    if not future.done():
                        future.set_result(None)
        finally:
            self._is_at_work = True
            for connection in list(self.connections):
                connection.drop()

    async def _write_group(self) -> None:
        group = self.engine.take()
        if group is None:
            await self._roll()
            return
        if group.parts:
            began_at = self._clock()
            await self.in_thread(self._write, group)
            self._sync_s.append(self._clock() - began_at)
        self._answer(self.engine.commit(group))

    def _write(self, group: Group[Asker]) -> None:
        self.engine.segments.write(group.offset, group.data)

    async def _roll(self) -> None:
        engine = self.engine
        if not engine.lacks_segment:
            try:
                await self.in_thread(engine.segments.roll)
                return
            except DiskFullError as error:
                log.warning("read-only: %s; free space on the disk", error)
                engine.lacks_segment = True
        # Recovery, too, is refused until there is room: an attempt takes what other programs on the disk have left.
        self._answer(engine.refuse_all())

    def _answer(self, answers: list[tuple[Asker, bytes]]) -> None:
        if len(answers) == 1:
            connection, answer = answers[0]
            if connection is not None:
                connection.send([answer])
            return
        by_connection: dict[BookieConnection, list[bytes]] = {}
        for connection, answer in answers:
            if connection is not None:
                by_connection.setdefault(connection, []).append(answer)
        for connection, parts in by_connection.items():
            connection.send(parts)

    async def in_thread(self, function: object, *args: object) -> None:
        """Run a disk operation in the thread, after earlier ones."""
        self._in_thread += 1
        try:
            await self._loop.run_in_executor(self._thread, function, *args)  # type: ignore[arg-type]
        finally:
            self._in_thread -= 1

    async def copy(self, segment: SealedSegment, *, bytes_per_s: int) -> None:
        """Rewrite the live entries of a segment, at a limited rate.

        Raises DamagedError or DiskFailedError if an entry cannot be read, DiskFullError if it cannot be written.
        """
        refusals, copied = self.engine.refusals, 0
        for request in self.engine.copies(segment):
            while self.engine.submit(None, request) is not None:
                # The queue is full with clients' requests: they go first.
                await self.written()
            copied += len(request.body) if isinstance(request, AddRequest) else 0
            if copied >= bytes_per_s // 10:
                copied = 0
                await self.written()
                await asyncio.sleep(0.1)
        await self.written()
        if self.engine.refusals != refusals:
            raise DiskFullError("no space to copy the live entries of a segment")

    async def written(self) -> None:
        """Wait until every submitted request is durable or refused."""
        if self.engine.has_work:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._idle.append(future)
            self._wakened.set()
            await future

    async def close(self) -> None:
        """Stop listening and disconnect all clients."""
        for server in self._servers:
            server.close()
        for connection in list(self.connections):
            connection.drop()
        self._thread.shutdown(wait=False)
