"""Receive views from the pipeline: the newest replaces the others, invalid views are rejected and counted.

Always true:
    `latest` never goes back in time, and one connection holds at most one view's bytes;
    nothing more is read from a sender without the token;
    connections without the token block no sender: they end after 2 s, or earlier when their address opens more of
    them.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import time
from collections.abc import Callable

from equipoise.errors import ProtocolError, SettingsError, ViewError
from equipoise.model.address import joined
from equipoise.view import View
from equipoise.view.codec import GREETING, HEADER_BYTES, Header, decode_header, decode_view
from equipoise.view.interest import Interest, encode_interest

__all__ = ["ViewReceiver"]

log = logging.getLogger("equipoise.control")

# Senders with the token: a pipeline, and its successor; more are an error.
SENDERS_MAX = 8
# Connections without the token, per address and in all; a new one replaces the oldest.
STRANGERS_PER_PEER_MAX = 4
STRANGERS_MAX = 64
GREETING_S = 2.0
GREETING_BYTES_MAX = 1_024
# A view arrives each second; a sender that is silent for this long is gone.
SILENCE_S = 60.0
# Clocks differ; a view from further in the future is forged or from a wrong clock, and would outlast all valid ones.
FUTURE_S_MAX = 5.0


class ViewReceiver:
    """Owned by one controller. `views` counts accepted views; `refused` the others."""

    def __init__(self, *, token: str = "", clock: Callable[[], float] = time.time) -> None:
        self._token = token
        self._clock = clock
        self._server: asyncio.Server | None = None
        # The task of each connection, and its sending end.
        self._serving: dict[asyncio.Task[None], asyncio.StreamWriter] = {}
        # Connections without the token, the oldest first, each with its address.
        self._strangers: dict[asyncio.StreamWriter, str] = {}
        # The topics that the next views should name; set by the controller after each round.
        self.interest = Interest()
        self._latest: View | None = None
        self.views = 0
        self.refused = 0
        # Set with every accepted view.
        self.news = asyncio.Event()

    @property
    def latest(self) -> View | None:
        return self._latest

    @property
    def age_s(self) -> float | None:
        """Of the newest view; None before the first."""
        return None if self._latest is None else self._clock() - self._latest.time_s

    async def start(self, host: str, port: int) -> str:
        """Listen; return the address. Raises SettingsError if it is not available."""
        try:
            self._server = await asyncio.start_server(self._serve, host, port, limit=GREETING_BYTES_MAX)
        except OSError as problem:
            raise SettingsError(f"cannot receive views on {host}:{port}: {problem.strerror}") from problem
        return joined(host, self._server.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        """End all connections with it."""
        if self._server is not None:
            self._server.close()
            self._server = None
        for writer in self._serving.values():
            writer.transport.abort()
        await asyncio.gather(*self._serving, return_exceptions=True)

    def want(self, interest: Interest) -> None:
        """Set the topics that the next views should name."""
        self.interest = interest

    def take(self, view: View) -> None:
        """Raises ViewError if it is not newer than the present one, or is from the future."""
        if view.time_s > self._clock() + FUTURE_S_MAX:
            raise ViewError(f"it is {view.time_s - self._clock():.0f} s ahead of this clock")
        if self._latest is not None and view.time_s <= self._latest.time_s:
            raise ViewError("it is not newer than the last one")
        self._latest = view
        self.views += 1
        self.news.set()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None, "called as a task"
        self._serving[task] = writer
        self._receive_stranger(writer)
        try:
            async with asyncio.timeout(GREETING_S):
                is_known = self._knows(await reader.readline())
            if not is_known:
                log.warning("rejected a sender of views without the token")
                return
            if self._strangers.pop(writer, None) is None:
                return
            if len(self._serving) - len(self._strangers) > SENDERS_MAX:
                log.warning("rejected a sender of views: %d are connected", SENDERS_MAX)
                return
            while True:
                async with asyncio.timeout(SILENCE_S):
                    header = decode_header(await reader.readexactly(HEADER_BYTES))
                    data = await reader.readexactly(header.total_bytes)
                writer.write(await self._answer(header, data))
                await writer.drain()
        except (ProtocolError, TimeoutError, OSError, ValueError, asyncio.IncompleteReadError) as problem:
            log.debug("lost a sender of views: %r", problem)
        finally:
            self._serving.pop(task, None)
            self._strangers.pop(writer, None)
            writer.transport.abort()

    def _receive_stranger(self, writer: asyncio.StreamWriter) -> None:
        """Close the oldest connection without the token if there are too many, of the same address first."""
        peer = str((writer.get_extra_info("peername") or ("",))[0])
        alike = [other for other, address in self._strangers.items() if address == peer]
        self._strangers[writer] = peer
        if len(alike) >= STRANGERS_PER_PEER_MAX:
            self._send_away(alike[0])
        elif len(self._strangers) > STRANGERS_MAX:
            self._send_away(next(iter(self._strangers)))

    def _send_away(self, writer: asyncio.StreamWriter) -> None:
        del self._strangers[writer]
        writer.transport.abort()

    async def _answer(self, header: Header, data: bytes) -> bytes:
        try:
            # Half a second for 100,000 topics: in a thread.
            self.take(await asyncio.to_thread(decode_view, header, data))
        except ViewError as problem:
            self.refused += 1
            log.warning("rejected a view: %s", problem)
            return b"-" + str(problem).replace("\n", " ").encode()[:500] + b"\n"
        return b"+" + encode_interest(self.interest) + b"\n"

    def _knows(self, line: bytes) -> bool:
        word, _, token = line.rstrip(b"\r\n").partition(b" ")
        return word == GREETING and hmac.compare_digest(token, self._token.encode())
