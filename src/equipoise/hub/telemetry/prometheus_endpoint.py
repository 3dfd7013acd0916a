"""Serve a hub's metrics to Prometheus over HTTP, on the hub's event loop.

Always true: a request is limited to seconds and a few kilobytes, a connection serves one request, and only a few
connections are served at a time, the others closed; so no client that can reach the port can block the hub. Values are
read in steps between which the loop serves clients.

Without a token only loopback is served, and only under a loopback name: a page of another site whose name resolves to
this address (DNS rebinding) cannot read the metrics.
"""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from equipoise.errors import SettingsError
from equipoise.hub.access.connection_limits import is_loopback
from equipoise.hub.telemetry.prometheus import MetricsReading, render, samples_of

if TYPE_CHECKING:
    from equipoise.hub.shell.server import Hub

__all__ = ["serve_metrics"]

# Prometheus sends a few hundred bytes at once.
_HEAD_BYTES_MAX = 8 * 1024
_PATIENCE_S = 5.0
_CLOSE_S = 1.0
# Two Prometheus servers are usual for high availability.
_AT_ONCE_MAX = 4
_TOKEN_CHARACTERS_MIN = 16
_TEXT = "text/plain; version=0.0.4; charset=utf-8"


@asynccontextmanager
async def serve_metrics(hub: Hub) -> AsyncIterator[str | None]:
    """Serve metrics for the duration of the block; yields the address, None if off. Raises SettingsError."""
    settings = hub.settings.metrics
    if settings.port is None:
        yield None
        return
    token = _read_token(settings.token_file)
    if not token and not hub.settings.insecure and not is_loopback(settings.host):
        raise SettingsError(
            f"refusing to serve metrics on {settings.host} without a token: give --metrics-token-file, or listen on "
            "127.0.0.1"
        )
    scraping = _Scraping(hub, token)
    try:
        server = await asyncio.start_server(
            scraping.serve, settings.host, settings.port, limit=_HEAD_BYTES_MAX
        )
    except OSError as problem:
        raise SettingsError(
            f"cannot serve metrics on {settings.host}:{settings.port}: {problem.strerror}. Choose another port, or 0 "
            "for a free one"
        ) from problem
    try:
        port = server.sockets[0].getsockname()[1]
        yield f"http://{settings.host}:{port}/metrics"
    finally:
        server.close()
        await scraping.stop()


class _Scraping:
    """All connections to the metrics port."""

    def __init__(self, hub: Hub, token: str) -> None:
        self._hub = hub
        self._token = token
        self._reading: MetricsReading | None = None
        # One reading at a time, because readings share the topics shown last.
        self._turn = asyncio.Lock()
        self._serving: set[asyncio.Task[None]] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None, "called by the server, in a task"
        self._serving.add(task)
        try:
            async with asyncio.timeout(_PATIENCE_S):
                if len(self._serving) > _AT_ONCE_MAX:
                    return
                head = await reader.readuntil(b"\r\n\r\n")
                writer.write(await self._answer(head.decode("latin-1"), writer))
                await writer.drain()
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            # A late or invalid request gets no reply.
            pass
        finally:
            await _close(writer)
            self._serving.discard(task)

    async def stop(self) -> None:
        for task in self._serving:
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)

    async def _answer(self, head: str, writer: asyncio.StreamWriter) -> bytes:
        first, *lines = head.split("\r\n")
        method, _, rest = first.partition(" ")
        path = rest.partition(" ")[0].partition("?")[0]
        headers = {
            name.strip().lower(): value.strip() for name, _, value in (x.partition(":") for x in lines)
        }
        if method != "GET":
            return _answer("405 Method Not Allowed", b"only GET\n")
        if path not in ("/metrics", "/healthz"):
            return _answer("404 Not Found", b"see /metrics\n")
        if path == "/healthz":
            health = self._hub.core.health
            status = "200 OK" if health.is_serving else "503 Service Unavailable"
            return _answer(status, f"{health.text}\n".encode())
        peer = writer.get_extra_info("peername")
        refusal = self._refusal(headers, str(peer[0]) if peer else "")
        if refusal:
            return _answer("401 Unauthorized", f"{refusal}\n".encode())
        return _answer("200 OK", await self._read())

    def _refusal(self, headers: dict[str, str], peer: str) -> str:
        """The reason for rejecting the request; empty if it is served."""
        if self._token:
            scheme, _, shown = headers.get("authorization", "").partition(" ")
            is_known = scheme.lower() == "bearer" and hmac.compare_digest(
                shown.strip().encode(), self._token.encode()
            )
            return "" if is_known else "a token is required: Authorization: Bearer TOKEN"
        if self._hub.settings.insecure:
            return ""
        host = headers.get("host", "")
        name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
        if is_loopback(peer) and is_loopback(name.strip("[]")):
            return ""
        return "without a token metrics are served on loopback only: give --metrics-token-file"

    async def _read(self) -> bytes:
        """The text of all metrics. The loop serves clients between two steps."""
        core = self._hub.core
        async with self._turn:
            if self._reading is None:
                self._reading = MetricsReading(core, self._hub.settings.metrics.topics_max)
            for _ in self._reading.steps():
                await asyncio.sleep(0)
            return render(samples_of(self._reading), self._hub.settings.name)


async def _close(writer: asyncio.StreamWriter) -> None:
    """Send the remaining output within _CLOSE_S, then close the connection."""
    writer.close()
    try:
        async with asyncio.timeout(_CLOSE_S):
            await writer.wait_closed()
    except (OSError, TimeoutError):
        writer.transport.abort()


def _answer(status: str, body: bytes) -> bytes:
    head = f"HTTP/1.1 {status}\r\nContent-Type: {_TEXT}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    return head.encode() + body


def _read_token(file: str) -> str:
    if not file:
        return ""
    try:
        token = Path(file).read_text().strip()
    except (OSError, UnicodeDecodeError) as problem:
        raise SettingsError(f"cannot read the token file {file}: {problem}") from problem
    if len(token) < _TOKEN_CHARACTERS_MIN:
        raise SettingsError(
            f"the token in {file} has {len(token)} characters: use {_TOKEN_CHARACTERS_MIN} or more"
        )
    return token
