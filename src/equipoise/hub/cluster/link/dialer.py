"""Keep a connection to every other hub: dial, log in, greet, go on where the link had got to; and again when it breaks.

The shell of the outgoing links. Runs on uvloop, on asyncio's own loop and on the simulated one alike.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable
from typing import TYPE_CHECKING

from equipoise.hub.cluster.cluster import Cluster
from equipoise.hub.cluster.link.codec import GREETING, PROTOCOL
from equipoise.resp.spelling import spell

if TYPE_CHECKING:
    from equipoise.hub.cluster.link.link import OutLink
    from equipoise.hub.cluster.router import LiveHub
    from equipoise.hub.core import HubCore

__all__ = ["Dialer", "Login"]

log = logging.getLogger("equipoise.hub")

# User and password, where hubs have users.
Login = tuple[str, str] | None
# The first pause after a failure; it doubles up to the setting.
REDIAL_FIRST_S = 0.02
# A reply is a count or an error; anything longer is no hub.
LINE_BYTES_MAX = 1_024


class Dialer:
    """Owned by one hub. One task for each link."""

    def __init__(self, core: HubCore, login: Login, rng: random.Random, on_dead: Callable[[], None]) -> None:
        self._core = core
        self._login = login
        self._rng = rng
        self._on_dead = on_dead
        self._tasks: dict[OutLink, asyncio.Task[None]] = {}
        self._connections: dict[OutLink, LinkConnection] = {}

    def dial(self, link: OutLink, facts: LiveHub) -> None:
        self._tasks[link] = asyncio.get_running_loop().create_task(self._keep(link, facts))

    def redial(self, link: OutLink) -> None:
        connection = self._connections.get(link)
        if connection is not None:
            connection.abort()

    def hang_up(self, link: OutLink) -> None:
        task = self._tasks.pop(link, None)
        if task is not None:
            task.cancel()
        self.redial(link)

    def buried(self) -> None:
        # Not in the middle of what found it out.
        asyncio.get_running_loop().call_soon(self._on_dead)

    async def _keep(self, link: OutLink, facts: LiveHub) -> None:
        settings = self._core.settings.cluster
        pause_s = REDIAL_FIRST_S
        while True:
            if await self._serve(link, facts):
                pause_s = REDIAL_FIRST_S
            await asyncio.sleep(pause_s * (0.5 + self._rng.random()))
            pause_s = min(2 * pause_s, settings.reconnect_interval_s_max)

    async def _serve(self, link: OutLink, facts: LiveHub) -> bool:
        """One connection, from dialling to its end; whether it was of use."""
        loop = asyncio.get_running_loop()
        settings = self._core.settings.cluster
        connection = LinkConnection(link, loop)
        try:
            async with asyncio.timeout(settings.link_timeout_s):
                await loop.create_connection(lambda: connection, facts.host, facts.port)
                self._connections[link] = connection
                refusal = await connection.greet(self._greeting(link))
            if refusal is not None:
                self._refused(link, refusal)
                return False
            await self._watch(link, connection)
            return True
        except (OSError, TimeoutError) as problem:
            log.debug("link to %s: %r", link.hub, problem)
            return False
        finally:
            if self._connections.pop(link, None) is connection:
                link.suspend()
            connection.abort()

    async def _watch(self, link: OutLink, connection: LinkConnection) -> None:
        """Return when the connection is lost, or nothing is heard of what waits to be acknowledged."""
        link_timeout_s = self._core.settings.cluster.link_timeout_s
        while not connection.lost.done():
            heard, kept_from = connection.heard, link.base
            await asyncio.wait([connection.lost], timeout=link_timeout_s)
            if link.kept_bytes and connection.heard == heard and link.base == kept_from:
                return

    def _greeting(self, link: OutLink) -> list[bytes]:
        core = self._core
        # Where there are no users, nobody is known by a name: hubs have their login ready for when there will be some.
        words = None if core.users.is_open else self._login
        login = [] if words is None else [spell((b"AUTH", *(part.encode() for part in words)))]
        own = (core.settings.name.encode(), b"%d" % core.incarnation, b"%d" % link.generation)
        peer = (link.hub.encode(), b"%d" % link.incarnation)
        return [*login, spell((GREETING, PROTOCOL, *own, *peer))]

    def _refused(self, link: OutLink, refusal: str) -> None:
        cluster = self._core.cluster
        if refusal.startswith("DEAD") and isinstance(cluster, Cluster):
            cluster.be_buried()
        elif refusal.startswith(("STALE", "UNKNOWN")):
            log.debug("link to %s: %s", link.hub, refusal)
        else:
            log.warning("link to %s refused: %s", link.hub, refusal)


class LinkConnection(asyncio.Protocol):
    """One connection of a link, dialling side."""

    transport: asyncio.Transport | None = None

    def __init__(self, link: OutLink, loop: asyncio.AbstractEventLoop) -> None:
        self._link = link
        self._generation = link.generation
        self.lost: asyncio.Future[None] = loop.create_future()
        self._greeted: asyncio.Future[str | None] = loop.create_future()
        # Replies to come before the greeting's own.
        self._logins = 0
        self._line = b""
        # Counts what was received.
        self.heard = 0

    async def greet(self, commands: list[bytes]) -> str | None:
        """Say who we are; why we may not be, if so. Frames flow from then on. Raises OSError if it is cut short."""
        assert self.transport is not None, "greeted once connected"
        self._logins = len(commands) - 1
        self.transport.write(b"".join(commands))
        return await self._greeted

    def abort(self) -> None:
        if self.transport is not None:
            self.transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]  # a stream's transport

    def connection_lost(self, exc: Exception | None) -> None:
        self._link.suspend()
        if not self.lost.done():
            self.lost.set_result(None)
        if not self._greeted.done():
            self._greeted.set_exception(ConnectionResetError("lost before the greeting was answered"))
            # Retrieved here in case nobody waits for it any more.
            self._greeted.exception()

    def pause_writing(self) -> None:
        self._link.pause()

    def resume_writing(self) -> None:
        self._link.unpause()

    def data_received(self, data: bytes) -> None:
        self.heard += 1
        *lines, self._line = (self._line + data).split(b"\r\n")
        if self._link.generation != self._generation or len(self._line) > LINE_BYTES_MAX:
            self.abort()
            return
        for line in lines:
            if not self._take(line):
                self.abort()
                return

    def _take(self, line: bytes) -> bool:
        """One reply; whether the connection is of any further use."""
        if line[:1] == b"-":
            if not self._greeted.done():
                self._greeted.set_result(line[1:].decode("utf-8", "replace"))
            return False
        if self._logins:
            self._logins -= 1
            return True
        if line[:1] != b":" or not line[1:].isdigit():
            return False
        offset = int(line[1:])
        if self._greeted.done():
            return self._link.acknowledge(offset)
        assert self.transport is not None, "it is connected"
        if not self._link.resume(offset, self.transport.write):
            self._link.fall()
            return False
        self._greeted.set_result(None)
        return True
