"""A connection to one bookie: sends adds and reads, matches answers by operation, ledger and entry.

Always true: each request is answered exactly once, by the bookie or, after a disconnect or a timeout, with UNKNOWN;
never during the call that sent it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import cast

from equipoise.clock import is_uvloop
from equipoise.errors import DisconnectedError, ProtocolError
from equipoise.ledger.wire import (
    AddAnswer,
    AuthAnswer,
    BatchAnswer,
    BatchRequest,
    Code,
    Flag,
    FrameReader,
    ReadAnswer,
    add_head,
    decode_answer,
    encode_auth,
    encode_batch,
    encode_read,
    stored_entry,
)

__all__ = ["BookieLink"]

_NO_FLAGS = Flag(0)


class BookieLink(asyncio.Protocol):
    """Created by the pool for each connection. `is_open` until the connection breaks, and never again."""

    def __init__(self, on_lost: Callable[[BookieLink], None], *, timeout_s: float) -> None:
        self.is_open = False
        self._on_lost = on_lost
        self._timeout_s = timeout_s
        self._transport: asyncio.Transport | None = None
        self._reader = FrameReader()
        self._adds: dict[tuple[int, int], list[Callable[[Code], None]]] = {}
        self._reads: dict[tuple[int, int], deque[asyncio.Future[ReadAnswer]]] = {}
        # Batch reads in flight, by ticket.
        self._batches: dict[int, tuple[BatchRequest, asyncio.Future[BatchAnswer]]] = {}
        self._last_ticket = 0
        self._login: asyncio.Future[AuthAnswer] | None = None
        # Frames of this turn of the event loop, sent together at its end. Not on uvloop, where a frame is sent at once:
        # an extra turn costs as much as a write.
        self._out: list[bytes] = []
        self._loop = asyncio.get_running_loop()
        self._sends_at_once = is_uvloop(self._loop)
        self._received_at = 0.0
        self._timer: asyncio.TimerHandle | None = None

    # --- requests

    def add(
        self,
        ledger: int,
        entry: int,
        key: bytes,
        body: bytes,
        on_answer: Callable[[Code], None],
        flags: Flag = _NO_FLAGS,
    ) -> None:
        if not self.is_open:
            self._loop.call_soon(on_answer, Code.UNKNOWN)
            return
        self._adds.setdefault((ledger, entry), []).append(on_answer)
        self._send(add_head(key, len(body), flags), body)

    async def read(
        self, ledger: int, entry: int, *, key: bytes | None = None, flags: Flag = _NO_FLAGS
    ) -> ReadAnswer:
        return await self.ask(ledger, entry, key=key, flags=flags)

    def ask(
        self, ledger: int, entry: int, *, key: bytes | None = None, flags: Flag = _NO_FLAGS
    ) -> asyncio.Future[ReadAnswer]:
        """Send a read. The returned future may be cancelled."""
        future: asyncio.Future[ReadAnswer] = self._loop.create_future()
        if not self.is_open:
            future.set_result(ReadAnswer(Code.UNKNOWN, ledger, entry, b""))
            return future
        self._reads.setdefault((ledger, entry), deque()).append(future)
        self._send(encode_read(ledger, entry, key=key, flags=flags))
        return future

    def ask_batch(
        self, ledger: int, first: int, *, count_max: int, bytes_max: int
    ) -> asyncio.Future[BatchAnswer]:
        """Send a batch read, which the bookie must support. The returned future may be cancelled."""
        future: asyncio.Future[BatchAnswer] = self._loop.create_future()
        self._last_ticket += 1
        request = BatchRequest(ledger, first, self._last_ticket, count_max, bytes_max)
        if not self.is_open:
            future.set_result(_unknown(request))
            return future
        self._batches[request.ticket] = request, future
        self._send(encode_batch(request))
        return future

    async def log_in(self, user: str, password: str) -> None:
        """Authenticate before any other request, if the bookie requires it. Raises DisconnectedError if refused."""
        self._login = self._loop.create_future()
        self._send(encode_auth(user, password))
        answer = await self._login
        self._login = None
        if answer.refusal:
            raise DisconnectedError(f"the bookie rejects user {user!r}: {answer.refusal}")

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    # --- asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self.is_open = True
        if self._sends_at_once and transport.get_extra_info("sslcontext") is None:
            # By default uvloop sends short data at the end of the turn. The bookie can start while the hub continues.
            self._transport.set_write_buffer_limits(high=0)

    def data_received(self, data: bytes) -> None:
        self._received_at = self._loop.time()
        stored = None if self._reader.buffered_bytes else stored_entry(data)
        if stored is not None:
            self._added(stored, Code.OK)
            return
        try:
            for frame in self._reader.feed(data):
                self._answered(decode_answer(frame))
        except ProtocolError:
            self.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_open = False
        if self._timer is not None:
            self._timer.cancel()
        self._on_lost(self)
        if self._login is not None and not self._login.done():
            self._login.set_result(AuthAnswer("it closed the connection"))
        adds, self._adds = self._adds, {}
        reads, self._reads = self._reads, {}
        batches, self._batches = self._batches, {}
        for request, batch in batches.values():
            if not batch.done():
                batch.set_result(_unknown(request))
        for callbacks in adds.values():
            for callback in callbacks:
                callback(Code.UNKNOWN)
        for (ledger, entry), futures in reads.items():
            for future in futures:
                if not future.done():
                    future.set_result(ReadAnswer(Code.UNKNOWN, ledger, entry, b""))

    # --- inside

    def _answered(self, answer: AddAnswer | ReadAnswer | BatchAnswer | AuthAnswer) -> None:
        if isinstance(answer, BatchAnswer):
            _, batch = self._batches.pop(answer.ticket, (None, None))
            if batch is not None and not batch.done():
                batch.set_result(answer)
            return
        if isinstance(answer, AuthAnswer):
            if self._login is not None and not self._login.done():
                self._login.set_result(answer)
            return
        key = (answer.ledger, answer.entry)
        if isinstance(answer, AddAnswer):
            self._added(key, answer.code)
            return
        futures = self._reads.get(key)
        if futures:
            future = futures.popleft()
            if not futures:
                del self._reads[key]
            if not future.done():
                future.set_result(answer)

    def _added(self, key: tuple[int, int], code: Code) -> None:
        callbacks = self._adds.get(key)
        if callbacks is not None:
            if len(callbacks) == 1:
                del self._adds[key]
            callbacks.pop(0)(code)

    def _send(self, *pieces: bytes) -> None:
        """Send one frame."""
        if self._sends_at_once and self._transport is not None:
            # One system call, without a copy.
            self._transport.writelines(pieces)
        else:
            if not self._out:
                self._loop.call_soon(self._flush)
            self._out += pieces
        if self._timer is None:
            self._received_at = self._loop.time()
            self._timer = self._loop.call_later(self._timeout_s, self._check_silence)

    def _flush(self) -> None:
        out, self._out = self._out, []
        if self._transport is not None and self.is_open:
            self._transport.write(out[0] if len(out) == 1 else b"".join(out))

    def _check_silence(self) -> None:
        """Disconnect a bookie that owes answers and has sent nothing for the timeout."""
        self._timer = None
        if not self._adds and not self._reads and not self._batches:
            return
        left_s = self._received_at + self._timeout_s - self._loop.time()
        if left_s <= 0:
            self.abort()
        else:
            self._timer = self._loop.call_later(left_s, self._check_silence)


def _unknown(request: BatchRequest) -> BatchAnswer:
    """The answer in place of a bookie that does not answer."""
    return BatchAnswer(Code.UNKNOWN, request.ledger, request.first, request.ticket, [])
