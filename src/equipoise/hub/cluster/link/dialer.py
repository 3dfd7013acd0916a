"""Keep a connection to every peer: dial, log in, greet, resume the link; redial when it breaks.

The shell of the outgoing links. Runs on uvloop, on asyncio's own loop and on the simulated one alike.
"""

from __future__ import annotations

import asyncio
import logging
import random
import ssl
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from equipoise.clock import done_within
from equipoise.hub.cluster.cluster import Cluster
from equipoise.hub.cluster.link.capabilities import Announcement, spell_greeting
from equipoise.resp.replies import spell

if TYPE_CHECKING:
    from equipoise.hub.cluster.link.link import OutLink, Send
    from equipoise.hub.cluster.router import LiveHub
    from equipoise.hub.core import HubCore

__all__ = ["Dialer", "Login"]

log = logging.getLogger("equipoise.hub")

# User and password, where hubs have users.
Login = tuple[str, str] | None
# The first pause after a failure; it doubles up to the setting.
REDIAL_FIRST_S = 0.02
# A hub without a connection for this long is named in INFO, log and metrics: plan changes wait for it.
UNREACHABLE_S = 5.0
# A reply is a count or an error; anything longer is no hub.
LINE_BYTES_MAX = 1_024


class Dialer:
    """Owned by one hub. One task for each link."""

    def __init__(
        self,
        core: HubCore,
        login: Login,
        rng: random.Random,
        on_dead: Callable[[], None],
        on_lost: Callable[[OutLink], None] = lambda link: None,
    ) -> None:
        """`on_dead`: this life of the hub is over. `on_lost`: a connection has ended, or could not be made."""
        self._core = core
        # Who this hub is at the others; read with each dial.
        self.login = login
        self._rng = rng
        self._on_dead = on_dead
        self._on_lost = on_lost
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
        self._report(link, "")

    def declared_dead(self) -> None:
        # Not in the middle of what found it out.
        asyncio.get_running_loop().call_soon(self._on_dead)

    async def _keep(self, link: OutLink, facts: LiveHub) -> None:
        settings = self._core.settings.cluster
        pause_s = REDIAL_FIRST_S
        now = asyncio.get_running_loop().time
        since = now()
        while True:
            if await self._serve(link, facts):
                pause_s, since = REDIAL_FIRST_S, now()
            elif now() - since > UNREACHABLE_S:
                self._report(
                    link, f"cannot be reached at {facts.host}:{facts.port}; plan changes wait for it"
                )
            self._on_lost(link)
            await asyncio.sleep(pause_s * (0.5 + self._rng.random()))
            pause_s = min(2 * pause_s, settings.reconnect_interval_s_max)

    async def _serve(self, link: OutLink, facts: LiveHub) -> bool:
        """One connection, from dialling to its end; whether it was of use."""
        loop = asyncio.get_running_loop()
        settings = self._core.settings.cluster
        connection = LinkConnection(
            link,
            loop,
            partial(self._announced, link),
            self._look_for_room,
            partial(self._refused, link),
            gathered=self._core.shell.turns.gathered,
        )
        try:
            async with asyncio.timeout(settings.link_timeout_s):
                await self._connect(connection, facts)
                self._connections[link] = connection
                refusal = await connection.greet(self._login_words(), self._greeting(link))
            link.is_unreachable = False
            if refusal is not None:
                self._refused(link, refusal)
                return False
            self._report(link, "")
            await self._watch(link, connection)
            return True
        except ssl.SSLError as problem:
            link.is_unreachable = False
            # Also what a certificate of another name, an expired one and a port without TLS come to.
            self._report(link, f"TLS with {facts.tls_address} failed: {problem.reason or problem}")
            return False
        except (OSError, TimeoutError) as problem:
            link.is_unreachable = True
            log.debug("link to %s: %r", link.hub, problem)
            return False
        finally:
            if self._connections.pop(link, None) is connection:
                link.suspend()
            connection.abort()

    async def _connect(self, connection: LinkConnection, facts: LiveHub) -> None:
        """Raises OSError, ssl.SSLError among them."""
        loop = asyncio.get_running_loop()
        settings = self._core.settings
        if not settings.cluster.link_tls_ca:
            await loop.create_connection(lambda: connection, facts.host, facts.port)
            return
        host, _, port = facts.tls_address.rpartition(":")
        if not port:
            raise OSError("the hub has no TLS port: give it --tls-port")
        # Read for each connection: certificates can be replaced while the hub runs.
        context = ssl.create_default_context(cafile=settings.cluster.link_tls_ca)
        if settings.tls.certificate:
            context.load_cert_chain(settings.tls.certificate, settings.tls.key)
        await loop.create_connection(lambda: connection, host.strip("[]"), int(port), ssl=context)

    async def _watch(self, link: OutLink, connection: LinkConnection) -> None:
        """Return when the connection is lost, or nothing was heard for long of what waits to be acknowledged.

        After a shorter silence the link is held, so that its messages can go elsewhere should the peer be dead.
        """
        settings = self._core.settings.cluster
        interval_s, silent_s = settings.link_silence_s / 2, 0.0
        while not connection.lost.done():
            heard, written_to = connection.heard, link.written_to
            await done_within(connection.lost, interval_s)
            if connection.heard != heard or link.base >= written_to:
                silent_s = 0.0
                self._look_for_room(link)
                continue
            link.hold()
            silent_s += interval_s
            if silent_s >= settings.link_timeout_s:
                link.is_unreachable = True
                return

    def _login_words(self) -> bytes:
        # Without users there is nothing to log in as. The login is kept for when there are some.
        words = None if self._core.users.is_open else self.login
        return b"" if words is None else spell((b"AUTH", *(part.encode() for part in words)))

    def _greeting(self, link: OutLink) -> bytes:
        core = self._core
        own, peer = (core.settings.name, core.incarnation), (link.hub, link.incarnation)
        return spell_greeting(
            own,
            None
            if link.is_control
            else Announcement.of(core.limits, has_content=core.settings.cluster.filtered_links),
            generation=link.generation,
            peer=peer,
            is_control=link.is_control,
        )

    def _announced(self, link: OutLink, announcement: Announcement) -> None:
        cluster = self._core.cluster
        if isinstance(cluster, Cluster):
            cluster.greeting.announced((link.hub, link.incarnation), announcement)

    def _look_for_room(self, link: OutLink) -> None:
        """The peer has acknowledged frames: messages that waited for room may go on."""
        cluster = self._core.cluster
        if link.is_awaited and not link.is_full and isinstance(cluster, Cluster):
            cluster.ingress.has_room(link)

    def _report(self, link: OutLink, problem: str) -> None:
        name = "control link" if link.is_control else "link"
        self._core.health.report(f"{name} to {link.hub}", problem, is_grave=False)

    def _refused(self, link: OutLink, refusal: str) -> None:
        cluster = self._core.cluster
        if refusal.startswith("DEAD") and isinstance(cluster, Cluster):
            cluster.declared_dead()
        elif refusal.startswith(("STALE", "UNKNOWN")):
            log.debug("link to %s: %s", link.hub, refusal)
        else:
            log.warning("link to %s refused: %s", link.hub, refusal)


class LinkConnection(asyncio.Protocol):
    """One connection of a link, dialling side."""

    transport: asyncio.Transport | None = None

    def __init__(
        self,
        link: OutLink,
        loop: asyncio.AbstractEventLoop,
        on_announced: Callable[[Announcement], None],
        on_acknowledged: Callable[[OutLink], None],
        on_ended: Callable[[str], None],
        *,
        gathered: Callable[[Send], Send],
    ) -> None:
        """`on_ended` is called with the error reply with which the peer ends a link that it had accepted. `gathered`:
        the `write` of a transport, called once for each turn of the loop.
        """
        self._link = link
        self._on_ended = on_ended
        self._on_announced = on_announced
        self._on_acknowledged = on_acknowledged
        self._gathered = gathered
        self._generation = link.generation
        self.lost: asyncio.Future[None] = loop.create_future()
        self._greeted: asyncio.Future[str | None] = loop.create_future()
        # What takes each of the replies to come, up to that to EQ.L.HELLO; acks follow. Says whether the connection is
        # of further use.
        self._replies: deque[Callable[[bytes], bool]] = deque()
        self._announcement: Announcement | None = None
        self._line = b""
        # Counts what was received.
        self.heard = 0

    async def greet(self, login: bytes, greeting: bytes) -> str | None:
        """Greet; the peer's reason if it refuses. Frames flow from then on. Raises OSError if it is cut short.

        `login` may be empty.
        """
        assert self.transport is not None, "greeted once connected"
        self._replies.extend([self._logged_in] if login else [])
        self._replies.extend([] if self._link.is_control else [self._told_capabilities])
        self._replies.append(self._told_offset)
        self.transport.write(login + greeting)
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
            # Retrieved here in case `greet` was cancelled.
            self._greeted.exception()

    def pause_writing(self) -> None:
        self._link.pause()

    def resume_writing(self) -> None:
        self._link.unpause()

    def data_received(self, data: bytes) -> None:
        self.heard += 1
        *lines, self._line = (self._line + data).split(b"\r\n")
        is_given_up = self._greeted.cancelled()
        if is_given_up or self._link.generation != self._generation or len(self._line) > LINE_BYTES_MAX:
            # Given up: the answer came in the moment in which the time for it was over.
            self.abort()
            return
        for line in lines:
            if not self._take(line):
                self.abort()
                return
        self._on_acknowledged(self._link)

    def _take(self, line: bytes) -> bool:
        """One reply; whether the connection is of any further use."""
        if self._replies:
            return self._replies.popleft()(line)
        if line[:1] == b"-":
            self._on_ended(line[1:].decode("utf-8", "replace"))
            return False
        return line[:1] == b":" and line[1:].isdigit() and self._link.acknowledge(int(line[1:]))

    def _logged_in(self, line: bytes) -> bool:
        return line[:1] != b"-" or self._refuse(line)

    def _told_capabilities(self, line: bytes) -> bool:
        """An error is that of a hub before capabilities had names; if there is another reason, HELLO meets it, too."""
        if line[:1] == b"+":
            self._announcement = Announcement.parse(line[1:].split())
        return True

    def _told_offset(self, line: bytes) -> bool:
        if line[:1] == b"-":
            return self._refuse(line)
        if line[:1] != b":" or not line[1:].isdigit():
            return False
        assert self.transport is not None, "it is connected"
        if self._announcement is not None:
            self._on_announced(self._announcement)
        if not self._link.resume(int(line[1:]), self._gathered(self.transport.write)):
            self._link.fall()
            return False
        self._greeted.set_result(None)
        return True

    def _refuse(self, line: bytes) -> bool:
        self._greeted.set_result(line[1:].decode("utf-8", "replace"))
        return False
