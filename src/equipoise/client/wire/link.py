"""Keep one connection to a hub: connect, detect its loss, reconnect if it is the link of the URL.

    open    ──lost──►  away  ──connected──►  open            the link of the URL: the base
      └───────────────────┴──closed, or refused permanently──►  over

    new     ──connected──►  open  ──lost, closed──►  over     a link to a topic's home
      └──────────not connected─────────────────────►  over

While the base is away, attempts follow with growing, jittered delays; each round tries every address in turn, starting
after the one used last, then hubs announced since. A permanent refusal ends the base: its error goes to all waiting
calls, and to later ones. A home's link that has ended is replaced by a new one when a topic needs it again; its topics
use the base meanwhile.

Pings detect a silent peer. All time is the running loop's.
"""

from __future__ import annotations

import asyncio
import logging
import random
from typing import Protocol, cast

from equipoise.client.settings import ClientSettings
from equipoise.client.url import Endpoint
from equipoise.client.wire.connection import Connection
from equipoise.client.wire.dial import Backoff, ClientDialer, watch
from equipoise.client.wire.error_replies import is_permanent
from equipoise.client.wire.link_subscriptions import LinkSubscriptions, SubscriptionOwner
from equipoise.client.wire.requests import NowaitLosses, Request
from equipoise.errors import BackloggedError, DisconnectedError, EquipoiseError, PeerError

log = logging.getLogger("equipoise.client")

CLIENT_BYTES = 16
"""The common prefix of the names of a client's links."""


class LinkOwner(SubscriptionOwner, Protocol):
    """Decides which link sends what."""

    losses: NowaitLosses

    def known_hubs(self) -> list[Endpoint]:
        """Addresses to try when no address of the URL replies."""

    def on_up(self, link: Link) -> None: ...

    def on_down(self, link: Link, unsent: list[Request]) -> None:
        """The connection is lost; the base reconnects. `unsent` was waiting for room."""

    def on_over(self, link: Link, error: EquipoiseError | None) -> None:
        """The link will not connect any more. None: its owner has closed it."""


class Link:
    """Owned by one bus. The base is opened, a home's link is started; both are closed once."""

    def __init__(
        self,
        dialer: ClientDialer,
        owner: LinkOwner,
        rng: random.Random,
        endpoint: Endpoint | None = None,
        client: bytes = b"",
    ) -> None:
        settings = dialer.settings
        self._dialer = dialer
        self._owner = owner
        self._rng = rng
        self._settings = settings
        self._backoff = Backoff(settings.reconnect_first_s, settings.reconnect_max_s, rng)
        self._endpoints = dialer.url.endpoints if endpoint is None else (endpoint,)
        self._task: asyncio.Task[None] | None = None
        # The connection that is closing.
        self._left: Connection | None = None
        # The address of this link; None for the base, which uses those of the URL.
        self.endpoint = endpoint
        # The name by which a hub knows which connection replaces an earlier one.
        self.name = b""
        self.rename(client)
        self.outbox = Outbox(settings)
        self.subscriptions = LinkSubscriptions(owner)
        # A direct reference: this runs once per push.
        self.on_push = self.subscriptions.on_push

    @property
    def connection(self) -> Connection | None:
        return self.outbox.connection

    def rename(self, client: bytes = b"") -> None:
        """A hub has confirmed that no message will arrive under the former name any more.

        All links of a client have its own name as prefix, by which hubs know it in recorded arrivals.
        """
        # Not guessable by default: a peer that knows a link's name could end its connection.
        name = self._rng.randbytes(16).hex().encode()
        client = client or self.name[:CLIENT_BYTES]
        self.name = client + name[len(client) :]

    async def open(self) -> None:
        """Connect the base for the first time. Raises the last error if patience runs out."""
        loop = asyncio.get_running_loop()
        patient_until = loop.time() + self._settings.first_connect_timeout_s
        while True:
            try:
                connection = await self._dial_round()
                break
            except EquipoiseError as error:
                delay_s = self._backoff.next_s()
                if is_permanent(error) or loop.time() + delay_s > patient_until:
                    raise
            await asyncio.sleep(delay_s)
        self._adopt(connection)
        self._task = loop.create_task(self._keep(connection), name="equipoise-link")

    def start(self) -> None:
        """Connect to a home, in a task of its own."""
        self._task = asyncio.get_running_loop().create_task(self._visit(), name="equipoise-link-home")

    def hang_up(self) -> list[asyncio.Future[object]]:
        """Stop; returns the tasks that are still ending. The owner has failed all waiting calls."""
        self._left = connection = self.outbox.connection
        self.outbox.detach()
        self.subscriptions.detach()
        ending: list[asyncio.Future[object]] = []
        if self._task is not None:
            self._task.cancel()
            ending.append(cast("asyncio.Future[object]", self._task))
        if connection is not None:
            connection.close()
            ending.append(cast("asyncio.Future[object]", connection.lost))
        return ending

    def abort(self) -> None:
        """Stop waiting for unsent frames."""
        if self._left is not None and not self._left.lost.done():
            self._left.abort(DisconnectedError("closed by its owner"))

    async def _keep(self, connection: Connection) -> None:
        """The task of the base."""
        loop = asyncio.get_running_loop()
        try:
            while True:
                began = loop.time()
                await self._watch(connection)
                if loop.time() - began >= self._settings.reconnect_max_s:
                    self._backoff.reset()
                connection = await self._reconnect()
                self._adopt(connection)
        except EquipoiseError as error:
            log.error("gave up reconnecting: %s", error)
            self._owner.on_over(self, error)
        except Exception as error:
            # A bug: waiting calls must not wait for ever.
            log.exception("the link to the hub failed")
            self._owner.on_over(self, EquipoiseError(f"the client failed: {error!r}; please report this"))

    async def _visit(self) -> None:
        """The task of a home's link."""
        (endpoint,) = self._endpoints
        try:
            connection = await self._dialer.dial(endpoint, self.name, self, self._owner.losses)
            self._adopt(connection)
            await self._watch(connection)
            self._owner.on_over(self, connection.lost.result())
        except EquipoiseError as error:
            log.info("cannot reach the hub at %s: %s", endpoint, error)
            self._owner.on_over(self, error)
        except Exception as error:
            log.exception("the link to the hub at %s failed", endpoint)
            self._owner.on_over(self, EquipoiseError(f"the client failed: {error!r}; please report this"))

    async def _watch(self, connection: Connection) -> None:
        """Return when the connection is lost, or closed."""
        settings = self._settings
        await watch(connection, settings.ping_interval_s, settings.pings_unanswered_max)

    async def _reconnect(self) -> Connection:
        while True:
            await asyncio.sleep(self._backoff.next_s())
            try:
                return await self._dial_round()
            except EquipoiseError as error:
                if is_permanent(error):
                    raise
                log.info("still disconnected: %s", error)

    async def _dial_round(self) -> Connection:
        """Try every address once. Raises a permanent refusal at once, else the last failure."""
        failure: EquipoiseError | None = None
        own = self._endpoints
        for endpoint in (*own, *(hub for hub in self._owner.known_hubs() if hub not in own)):
            try:
                connection = await self._dialer.dial(endpoint, self.name, self, self._owner.losses)
            except (DisconnectedError, PeerError) as error:
                if is_permanent(error) and endpoint in own:
                    raise
                failure = error
            else:
                self._rotate_past(endpoint)
                return connection
        assert failure is not None, "a bus URL has at least one address"
        raise failure

    def _rotate_past(self, endpoint: Endpoint) -> None:
        """The address in use comes last, so that the next attempt begins with another one."""
        if endpoint in self._endpoints:
            at = self._endpoints.index(endpoint) + 1
            self._endpoints = self._endpoints[at:] + self._endpoints[:at]

    def _adopt(self, connection: Connection) -> None:
        if connection.lost.done():
            return
        # Subscriptions first: a client that subscribes to its own topic expects its own messages.
        self.subscriptions.attach(connection)
        self.outbox.attach(connection)
        self._owner.on_up(self)

    # Events of the connection.

    def on_read(self, connection: Connection) -> None:
        if connection is self.outbox.connection:
            self.outbox.pump()

    def on_lost(self, connection: Connection, error: EquipoiseError) -> None:
        if connection is not self.outbox.connection:
            return
        log.warning("lost the connection to the hub: %s; reconnecting", error)
        unsent = self.outbox.detach()
        self.subscriptions.detach()
        self._owner.on_down(self, unsent)


class Outbox:
    """Admits requests to one link's connection: at most a window of them may be in flight.

    Beyond the window a request waits its turn in order; a publish without receipt is rejected at once. A sent request
    is
    never resent here: when a connection is lost, the outcome of requests in flight is uncertain, and each publisher
    gets
    that error. Unsent requests return to their publishers. The queue needs no bound of its own: each entry is a waiting
    caller, or is counted by publishing.py.
    """

    __slots__ = ("_bytes_max", "_messages_max", "_queue", "connection")

    def __init__(self, settings: ClientSettings) -> None:
        self._messages_max = settings.in_flight_messages_max
        self._bytes_max = settings.in_flight_bytes_max
        # A dict, for its order and for removal at any place.
        self._queue: dict[Request, None] = {}
        self.connection: Connection | None = None

    @property
    def is_busy(self) -> bool:
        """Whether a request has no reply yet."""
        if self.connection is None:
            return bool(self._queue)
        in_flight = self.connection.in_flight
        return bool(self._queue) or in_flight.messages > 0 or len(in_flight.deferred) > 0

    def put(self, request: Request) -> None:
        """Send in order. Needs a connection."""
        connection = self.connection
        assert connection is not None, "only a link that is up gets requests"
        if not self._queue and self._has_room(connection, request.size):
            connection.submit(request)
        else:
            self._queue[request] = None

    def put_nowait(self, frame: bytes, size: int) -> None:
        """Send at once. Raises BackloggedError if there is no room."""
        connection = self.connection
        assert connection is not None, "only a link that is up gets requests"
        if not self._has_room(connection, size) or self._queue:
            raise BackloggedError(
                f"{connection.in_flight.messages} publishes ({connection.in_flight.bytes} bytes) have no receipt yet; "
                "await flush(), or use publish(), which waits"
            )
        connection.in_flight.add_nowait(size)
        connection.send(frame)

    def withdraw(self, request: Request) -> None:
        """The caller stopped waiting. A sent request is not withdrawn."""
        self._queue.pop(request, None)

    def _has_room(self, connection: Connection, size: int) -> bool:
        in_flight = connection.in_flight
        return in_flight.messages < self._messages_max and in_flight.bytes + size <= self._bytes_max

    # Events of the link.

    def attach(self, connection: Connection) -> None:
        self.connection = connection

    def detach(self) -> list[Request]:
        """The connection is lost: return the unsent requests, in order."""
        self.connection = None
        return self.take_unsent()

    def take_unsent(self) -> list[Request]:
        line, self._queue = list(self._queue), {}
        return line

    def pump(self) -> None:
        """Send queued requests while the window has room."""
        connection = self.connection
        while self._queue and connection is not None:
            request = next(iter(self._queue))
            if not self._has_room(connection, request.size):
                return
            del self._queue[request]
            if not request.is_over:
                connection.submit(request)
