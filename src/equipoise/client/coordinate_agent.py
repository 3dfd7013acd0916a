"""Execute the decisions of the coordinate finder: probe connections, visit hubs, query the gateway.

    step  ──►  requests on open connections, at most one visit, at most one question to the gateway
      ▲                                      │
      └── replies, changes, and `next_at` ◄──┘

Always true: at most one visit and one connection to a gateway at a time; it sends nothing after `stop`. A failed turn
does not prevent later ones.

`BusTransport` is the environment of a bus's agent: its links, the known hubs, and connections for measurements.
Such connections carry nothing else. A gateway does not receive the login of the hubs.
"""

from __future__ import annotations

import asyncio
import logging
import random
from contextlib import suppress
from dataclasses import replace
from typing import Protocol

from equipoise.client.publishing import Publishing
from equipoise.client.settings import ClientSettings
from equipoise.client.url import BusUrl, parse_address
from equipoise.client.wire.codec import encode_request
from equipoise.client.wire.connection import Connection
from equipoise.client.wire.dial import ClientDialer
from equipoise.client.wire.links import Links
from equipoise.client.wire.requests import LOST, Answered, NowaitLosses, ProbedConnection
from equipoise.coordinates import Coordinate, Finder, FinderSettings
from equipoise.coordinates.finder import WHERE
from equipoise.errors import AddressError, EquipoiseError, RefusedError

__all__ = []

log = logging.getLogger("equipoise.client")

_WHERE = encode_request(WHERE)


class ProbeTransport(Protocol):
    """The connections of a client."""

    def connections(self) -> dict[str, tuple[ProbedConnection, bool]]:
        """Open connections by the peer's address, and whether the client publishes or subscribes there."""

    def known(self) -> list[str]:
        """Addresses of known hubs, connected or not."""

    async def dial(self, address: str, *, is_gateway: bool) -> ProbedConnection:
        """Open a short connection, or one to a gateway. Raises EquipoiseError or OSError, within a bounded time."""


class CoordinateAgent:
    """Owned by one client. Call `wake` after each change of connections or topics; `stop` once, at the end."""

    def __init__(self, finder: Finder, transport: ProbeTransport) -> None:
        self.finder = finder
        self._transport = transport
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.Handle | None = None
        # When the timer fires.
        self._timer_at = 0.0
        # Connections at the last step: a new connection counts as a new peer.
        self._lines: dict[str, ProbedConnection] = {}
        self._visiting: asyncio.Task[None] | None = None
        self._guiding: asyncio.Task[None] | None = None
        # The gateway's connection is kept between requests, with its address.
        self._gateway: tuple[str, ProbedConnection] | None = None
        # Callers that wait for a gateway's first reply.
        self._waiting: set[asyncio.Future[None]] = set()
        self._is_over = False
        # Whether a turn has ever failed: logged once.
        self._has_failed = False

    @property
    def coordinate(self) -> Coordinate | None:
        return self.finder.coordinate

    def wake(self) -> None:
        """Run a step at once, at the end of this turn of the loop."""
        if not self._is_over and (self._timer is None or self._timer_at > self._loop.time()):
            self._schedule(self._loop.time())

    def stop(self) -> list[asyncio.Task[None]]:
        """Stop probing and reporting; returns the tasks that are still ending."""
        self._is_over = True
        if self._timer is not None:
            self._timer.cancel()
        self._hang_up()
        tasks = [task for task in (self._visiting, self._guiding) if task is not None]
        for task in tasks:
            task.cancel()
        self._let_go()
        return tasks

    def use_gateway(self, address: str | None) -> None:
        if address != self.finder.guide.address:
            self.finder.use_gateway(address, self._loop.time())
            self._hang_up()
            if self._guiding is not None:
                self._guiding.cancel()
                self._guiding = None
            self._let_go()
        self.wake()

    async def wait_guided(self, address: str, timeout_s: float) -> bool:
        """Whether this gateway has replied within this time; False as soon as another is chosen."""
        guide = self.finder.guide
        if not guide.has_replied and guide.address == address and not self._is_over:
            waiting = self._loop.create_future()
            self._waiting.add(waiting)
            await asyncio.wait([waiting], timeout=timeout_s)
            self._waiting.discard(waiting)
        return guide.has_replied and guide.address == address

    def _let_go(self) -> None:
        waiting, self._waiting = self._waiting, set()
        for one in waiting:
            one.set_result(None)

    def _schedule(self, at: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None
        if at == float("inf"):
            return
        is_now = at <= self._loop.time()
        self._timer_at = at
        self._timer = self._loop.call_soon(self._turn) if is_now else self._loop.call_at(at, self._turn)

    def _turn(self) -> None:
        self._timer = None
        try:
            self._act()
        except Exception:
            if not self._has_failed:
                log.exception("computing the coordinate failed; please report this")
            self._has_failed = True
            self._drop()
            self._schedule(self._loop.time() + self.finder.settings.report_s)

    def _drop(self) -> None:
        """A turn failed: its requests are not awaited."""
        finder = self.finder
        # Each connection counts as a new one at the next turn, which voids its pending request.
        self._lines = {}
        if self._visiting is None and finder.visiting is not None:
            finder.visited(finder.visiting, is_answered=False)
        if self._guiding is None:
            finder.guide.is_asked = False

    def _act(self) -> None:
        now, finder = self._loop.time(), self.finder
        around = self._transport.connections()
        for name, (line, _) in around.items():
            if self._lines.get(name) is not line:
                finder.lost(name)
        self._lines = {name: line for name, (line, _) in around.items()}
        step = finder.step(
            now, {name: is_used for name, (_, is_used) in around.items()}, self._transport.known()
        )
        if step.visit is not None:
            self._visiting = self._loop.create_task(self._visit(step.visit), name="equipoise-visit")
        if step.guide and finder.guide.address is not None:
            coroutine = self._ask_gateway(finder.guide.address)
            self._guiding = self._loop.create_task(coroutine, name="equipoise-gateway")
        for peer, words in step.asks:
            self._lines[peer].measure(encode_request(*words), self._hears(peer))
        self._schedule(finder.next_at)

    def _hears(self, peer: str) -> Answered:
        def replied(reply: object, rtt_s: float | None) -> None:
            if reply is LOST:
                self.finder.lost(peer)
            else:
                self.finder.answered(peer, reply, rtt_s, self._loop.time())
            self.wake()

        return replied

    async def _visit(self, peer: str) -> None:
        """Connect to a hub, measure some round trips, and disconnect."""
        is_answered = False
        try:
            line = await self._transport.dial(peer, is_gateway=False)
            try:
                for _ in range(self.finder.settings.visit_samples):
                    # The request reports this client's coordinate: hubs need it to know which of them are near.
                    reply, rtt_s = await self._measure(line, encode_request(*self.finder.words_to(peer)))
                    is_answered |= not isinstance(reply, RefusedError)
                    self.finder.answered(peer, reply, rtt_s, self._loop.time())
                    if not is_answered:
                        break
            finally:
                line.close()
        except (EquipoiseError, OSError) as error:
            log.debug("cannot measure the hub at %s: %s", peer, error)
        finally:
            self._visiting = None
            self.finder.visited(peer, is_answered=is_answered)
            self.wake()

    async def _ask_gateway(self, address: str) -> None:
        reply: object
        rtt_s: float | None = None
        try:
            if self._gateway is None:
                line = await self._transport.dial(address, is_gateway=True)
                self._gateway = (address, line)
            reply, rtt_s = await self._measure(self._gateway[1], _WHERE)
        except (EquipoiseError, OSError) as error:
            log.info("the gateway at %s does not reply: %s", address, error)
            self._hang_up()
            reply = error
        self._guiding = None
        self.finder.guide_answered(address, reply, rtt_s, self._loop.time())
        if self.finder.guide.has_replied:
            self._let_go()
        self.wake()

    async def _measure(self, line: ProbedConnection, frame: bytes) -> tuple[object, float | None]:
        """One request, with a reply before the next would be due. Raises TimeoutError, which is an OSError."""
        answer: asyncio.Future[tuple[object, float | None]] = self._loop.create_future()

        def replied(reply: object, rtt_s: float | None) -> None:
            if not answer.done():
                answer.set_result((reply, rtt_s))

        line.measure(frame, replied)
        async with asyncio.timeout(self.finder.settings.report_s):
            reply, rtt_s = await answer
        if reply is LOST:
            raise ConnectionResetError("the connection was lost")
        return reply, rtt_s

    def _hang_up(self) -> None:
        if self._gateway is not None:
            with suppress(OSError):
                self._gateway[1].close()
            self._gateway = None


_LINK_NAME_BYTES = 16


class BusTransport:
    """Owned by the routing of one bus."""

    def __init__(
        self, dialer: ClientDialer, links: Links, publishing: Publishing, rng: random.Random
    ) -> None:
        self._dialer = dialer
        self._links = links
        self._publishing = publishing
        self._rng = rng

    def connections(self) -> dict[str, tuple[ProbedConnection, bool]]:
        in_use = self._publishing.links_in_use
        return {
            connection.hub.decode(errors="replace"): (
                connection,
                bool(len(link.subscriptions)) or link in in_use,
            )
            for link in self._links.all
            if (connection := link.connection) is not None
        }

    def known(self) -> list[str]:
        """Hubs of the URL and of routes; the hub of the base connection only under its own name."""
        connection = self._links.base.connection
        dialled = None if connection is None else connection.dialled
        hubs = [hub for hub in self._dialer.url.endpoints if hub != dialled]
        if self._dialer.settings.routing:
            hubs += self._links.known()
        return list(dict.fromkeys(map(str, hubs)))

    async def dial(self, address: str, *, is_gateway: bool) -> ProbedConnection:
        endpoint = parse_address(address.encode())
        if endpoint is None:
            raise AddressError(f"{address!r} is not an address; write host:port")
        dialer = self._dialer
        if is_gateway:
            dialer = replace(dialer, url=BusUrl((endpoint,)), tls=None)
        name = self._rng.randbytes(_LINK_NAME_BYTES).hex().encode()
        return await dialer.dial(endpoint, name, _NoOwner(), NowaitLosses())


class _NoOwner:
    """Owns connections without publishes and subscriptions."""

    def on_push(self, connection: Connection, push: list[object]) -> None: ...

    def on_read(self, connection: Connection) -> None: ...

    def on_lost(self, connection: Connection, error: EquipoiseError) -> None: ...


def finder_settings(settings: ClientSettings) -> FinderSettings:
    """The finder's settings from the client's."""
    return FinderSettings(
        report_s=settings.coordinate_report_interval_s,
        probe_s=settings.coordinate_probe_interval_s,
        visit_s=settings.coordinate_visit_interval_s,
        gateway_patience_s=settings.coordinate_gateway_timeout_s,
    )
