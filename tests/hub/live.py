"""A hub on a real loop and real sockets, and peers that send it single bytes.

Always true: whatever is waited for is waited for with a time-out; and a test fails if anything raised inside the loop
without being asked, or if the hub left a connection, a task or a warning behind.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, ParamSpec

import hiredis
import pytest
import uvloop

from equipoise.access import ScryptCost, Users, hash_secret, parse_users
from equipoise.hub import Hub, HubSettings, Limits, Tls
from equipoise.hub.telemetry.settings import TelemetrySettings
from hub.world import decoded, request

TIMEOUT_S = 10.0
P = ParamSpec("P")
LOOPS: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {
    "uvloop": uvloop.new_event_loop,
    "asyncio": asyncio.new_event_loop,
}
_CHEAP = ScryptCost(n=1024, r=1, p=1)


def on_both_loops(test: Callable[P, Awaitable[None]]) -> Callable[..., None]:
    """Run an async test on uvloop, which serves, and on asyncio's own loop, which is the reference."""

    @pytest.mark.parametrize("loop_name", LOOPS)
    def run(loop_name: str, *args: P.args, **kwargs: P.kwargs) -> None:
        run_on(loop_name, functools.partial(test, *args, **kwargs))

    run.__name__ = test.__name__

    return run


def on_uvloop(test: Callable[P, Awaitable[None]]) -> Callable[P, None]:
    @functools.wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        run_on("uvloop", functools.partial(test, *args, **kwargs))

    return run


def run_on(loop_name: str, main: Callable[[], Awaitable[None]]) -> None:
    problems: list[dict[str, Any]] = []

    async def bounded() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: problems.append(context))
        async with asyncio.timeout(3 * TIMEOUT_S):
            await main()

    with asyncio.Runner(loop_factory=LOOPS[loop_name]) as runner:
        runner.run(bounded())
    assert problems == []


@asynccontextmanager
async def live_hub(
    limits: Limits | None = None,
    users: Users | None = None,
    *,
    tls: Tls | None = None,
    telemetry: TelemetrySettings | None = None,
) -> AsyncIterator[Hub]:
    settings = HubSettings(
        port=0, limits=limits or Limits(), tls=tls or Tls(), telemetry=telemetry or TelemetrySettings()
    )
    hub = Hub(settings, users)
    await hub.start()
    try:
        yield hub
    finally:
        await hub.stop()
        assert hub.core.admission.count == 0
        assert hub.core.sessions == {}


class Peer:
    """One connection's other end."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self._decoder = hiredis.Reader()
        self._replies: list[Any] = []

    @classmethod
    @asynccontextmanager
    async def connected(
        cls, hub: Hub, *, context: ssl.SSLContext | None = None, hostname: str | None = None
    ) -> AsyncIterator[Peer]:
        port = hub.port if context is None else hub.tls_port
        reader, writer = await asyncio.wait_for(
            asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname=hostname), TIMEOUT_S
        )
        peer = cls(reader, writer)
        try:
            yield peer
        finally:
            writer.transport.abort()

    def send(self, *words: str | bytes) -> None:
        self.writer.write(request(*words))

    def send_raw(self, data: bytes) -> None:
        self.writer.write(data)

    async def read(self) -> Any:
        """The next reply or push. Raises EOFError when the hub has closed the connection."""
        async with asyncio.timeout(TIMEOUT_S):
            while not self._replies:
                data = await self.reader.read(1 << 20)
                if not data:
                    raise EOFError
                self._decoder.feed(data)
                self._replies = decoded(self._decoder)
        return self._replies.pop(0)

    async def do(self, *words: str | bytes) -> Any:
        self.send(*words)
        return await self.read()

    async def closed(self) -> bytes:
        """What still comes until the hub closes the connection, or resets it."""
        rest = bytearray()
        async with asyncio.timeout(TIMEOUT_S):
            try:
                while data := await self.reader.read(1 << 20):
                    rest += data
            except ConnectionError:
                pass
        return bytes(rest)

    def stop_reading(self) -> None:
        """Become a peer that is connected and takes nothing more."""
        self.writer.transport.pause_reading()  # type: ignore[attr-defined]  # a socket's transport has it


def real_users(**grants: str) -> Users:
    """Users whose password is their name."""
    return parse_users(users_text(**grants))


def users_text(**grants: str) -> str:
    return "\n".join(
        f'[users.{name}]\nsecret = "{hash_secret(name.encode(), salt=b"saltsalt", cost=_CHEAP)}"\n{lines}\n'
        for name, lines in grants.items()
    )


def assert_quiet(caplog: pytest.LogCaptureFixture) -> None:
    """Nothing worse than the hub's own words about clients it cut."""
    for record in caplog.records:
        assert record.exc_info is None, record
        assert record.levelno < logging.ERROR, record.getMessage()
        assert record.name.startswith("equipoise"), record.getMessage()
