"""Health checks of the parts of a local cluster.

A hub replies to PING, a controller serves its health page, a bookie accepts connections, and the pipeline finishes
batches. Each check uses the interface of clients, so that it fails when they would fail.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import time
from collections.abc import Callable
from pathlib import Path

from equipoise.processes import Check

__all__ = [
    "BATCH_S_MAX",
    "FIRST_BATCH_S_MAX",
    "accepts",
    "controller_answers",
    "hub_answers",
    "pipeline_works",
]

# A batch takes a second, and tens of seconds on an overloaded machine.
BATCH_S_MAX = 60.0
# From its start on. A pipeline without a finished batch by then was rejected, or has no input: a restart does not help.
FIRST_BATCH_S_MAX = 150.0
_ANSWER_BYTES_MAX = 4096


def hub_answers(host: str, port: int) -> Check:
    async def check(lived_s: float) -> bool:
        # A refusal is a reply, too: the login is not checked here.
        return (await _said(host, port, b"PING\r\n"))[:1] in (b"+", b"-")

    return check


def accepts(host: str, port: int) -> Check:
    """Whether connections are accepted: every request to a bookie needs a ledger."""

    async def check(lived_s: float) -> bool:
        try:
            _, writer = await asyncio.open_connection(host, port)
        except OSError:
            return False
        writer.transport.abort()
        return True

    return check


def controller_answers(host: str, port: int, *, tls_ca: Path | None = None) -> Check:
    """`tls_ca`: the authority of its certificate, if its pages are served over HTTPS."""
    context = None if tls_ca is None else ssl.create_default_context(cafile=tls_ca)
    request = f"GET /healthz HTTP/1.1\r\nHost: {host}:{port}\r\nConnection: close\r\n\r\n".encode()

    async def check(lived_s: float) -> bool:
        return (await _said(host, port, request, context)).split(b" ", 2)[1:2] == [b"200"]

    return check


def pipeline_works(checkpoint: Path, *, is_fed: Callable[[], bool]) -> Check:
    """By Spark's record of each finished batch. `is_fed`: whether there is a hub to read from."""

    async def check(lived_s: float) -> bool | None:
        if not is_fed():
            return None
        try:
            silent_s = time.time() - (checkpoint / "commits").stat().st_mtime
        except OSError:
            silent_s = float("inf")
        if silent_s > lived_s:
            return None if lived_s > FIRST_BATCH_S_MAX else False
        return silent_s <= BATCH_S_MAX

    return check


async def _said(host: str, port: int, request: bytes, context: ssl.SSLContext | None = None) -> bytes:
    """The first line of the reply. Raises OSError."""
    reader, writer = await asyncio.open_connection(host, port, limit=_ANSWER_BYTES_MAX, ssl=context)
    try:
        writer.write(request)
        return await reader.readline()
    except ValueError:
        # The line is longer than any valid one.
        return b""
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
