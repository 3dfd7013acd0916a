"""Run the pages on the controller's own loop."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import uvicorn

from equipoise.errors import SettingsError
from equipoise.web.actions import Actions
from equipoise.web.app import make_app
from equipoise.web.facts import ClusterFacts
from equipoise.web.http_connections import CONNECTIONS_MAX, PER_PEER_MAX, bounded
from equipoise.web.peer_slots import PeerSlots
from equipoise.web.settings import WebSettings

__all__ = ["serve"]

STOP_S = 1.0


@asynccontextmanager
async def serve(facts: ClusterFacts, actions: Actions, settings: WebSettings) -> AsyncIterator[str]:
    """Serve while the block runs; its address. Raises SettingsError if the port is taken."""
    listening = _listen(settings.host, settings.port)
    app = make_app(facts, actions, settings)
    # Open pages hold a stream of events: shutting down does not wait for them to leave.
    config = uvicorn.Config(
        app,
        http=bounded(PeerSlots(CONNECTIONS_MAX, PER_PEER_MAX)),
        ws="none",
        limit_concurrency=CONNECTIONS_MAX + 1,
        log_level="warning",
        access_log=False,
        lifespan="off",
        timeout_graceful_shutdown=int(STOP_S),
    )
    server = _Embedded(config)
    async with asyncio.TaskGroup() as group:
        serving = group.create_task(server.serve(sockets=[listening]))
        refreshing = group.create_task(_refresh(facts, settings.refresh_interval_s))
        try:
            host, port = listening.getsockname()[:2]
            yield f"http://{host}:{port}"
        finally:
            refreshing.cancel()
            server.should_exit = True
            await asyncio.wait([serving], timeout=2 * STOP_S)
            serving.cancel()
            listening.close()


async def _refresh(facts: ClusterFacts, period_s: float) -> None:
    """Take every view into the charts, also while nobody looks."""
    while True:
        facts.refresh()
        await asyncio.sleep(period_s)


def _listen(host: str, port: int) -> socket.socket:
    made = socket.socket()
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((host, port))
        made.listen(128)
        made.setblocking(False)
    except OSError as problem:
        made.close()
        raise SettingsError(
            f"cannot serve pages on {host}:{port}: {problem.strerror}; choose another port, or 0 for a free one"
        ) from problem
    return made


class _Embedded(uvicorn.Server):
    """Signals are the command's business."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield
