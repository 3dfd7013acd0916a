"""Keep one connection to a hub: connect, notice when it is lost, connect again.

    open    ──lost──►  away  ──connected──►  open
      └───────────────────┴──closed, or refused for good──►  over

While away, attempts follow one another with growing, jittered delays; each round tries every address in
turn, starting after the one used last. A refusal that waiting does not heal ends the link: its error goes
to everyone who waits, and to whoever comes later.

A silent peer is noticed by pings. All time is the running loop's.
"""

from __future__ import annotations

import asyncio
import logging
import random

from equipoise.client.backoff import Backoff
from equipoise.client.channels import Channels
from equipoise.client.connection import Connection
from equipoise.client.greeting import Dialer
from equipoise.client.outbox import Outbox
from equipoise.client.refusals import is_permanent
from equipoise.client.url import Endpoint
from equipoise.errors import ClosedError, DisconnectedError, EquipoiseError, PeerError

log = logging.getLogger("equipoise.client")


class Link:
    """Owned by one bus, which calls `open` and `close` once each, in this order."""

    def __init__(self, dialer: Dialer, rng: random.Random) -> None:
        settings = dialer.settings
        self._dialer = dialer
        self._settings = settings
        self._backoff = Backoff(settings.reconnect_first_s, settings.reconnect_max_s, rng)
        self._endpoints = dialer.url.endpoints
        self._connection: Connection | None = None
        self._task: asyncio.Task[None] | None = None
        self.outbox = Outbox(settings)
        self.channels = Channels(settings.pattern_topics_max)
        # Straight through: this runs once per push.
        self.on_push = self.channels.on_push

    @property
    def is_connected(self) -> bool:
        return self._connection is not None

    async def open(self) -> None:
        """Connect for the first time. Raises what went wrong last if patience runs out."""
        loop = asyncio.get_running_loop()
        patient_until = loop.time() + self._settings.first_connect_patience_s
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
        self._task = loop.create_task(self._run(connection), name="equipoise-link")

    async def close(self) -> None:
        """Stop at once, within the close time-out at most."""
        self._end(ClosedError("the bus is closed; connect again for another"), is_clean=True)
        connection, self._connection = self._connection, None
        try:
            if self._task is not None:
                self._task.cancel()
                await asyncio.wait([self._task])
            if connection is not None:
                connection.close()
                await asyncio.wait([connection.lost], timeout=self._settings.close_timeout_s)
        finally:
            if connection is not None and not connection.lost.done():
                connection.abort(DisconnectedError("closed by its owner"))

    async def _run(self, connection: Connection) -> None:
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
            self._end(error, is_clean=False)
        except Exception as error:
            # A mistake of ours: those who wait must not wait for ever.
            log.exception("the link to the hub failed")
            self._end(EquipoiseError(f"the client failed: {error!r}; please report this"), is_clean=False)

    async def _watch(self, connection: Connection) -> None:
        """Return when the connection is lost; ping it meanwhile and give it up when it stays silent."""
        interval_s = self._settings.ping_interval_s
        unanswered = 0
        while not connection.lost.done():
            await asyncio.wait([connection.lost], timeout=interval_s)
            if connection.is_heard:
                unanswered = 0
            if unanswered >= self._settings.pings_unanswered_max:
                connection.abort(DisconnectedError(f"{unanswered} pings unanswered, {interval_s:g} s apart"))
                return
            connection.is_heard = False
            connection.tell(b"PING")
            unanswered += 1

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
        """Try every address once. Raises a refusal for good at once, else the last failure."""
        failure: EquipoiseError | None = None
        for endpoint in self._endpoints:
            try:
                connection = await self._dialer.dial(endpoint, self, self.outbox.losses)
            except (DisconnectedError, PeerError) as error:
                if is_permanent(error):
                    raise
                failure = error
            else:
                self._rotate_past(endpoint)
                return connection
        assert failure is not None, "a bus URL has at least one address"
        raise failure

    def _rotate_past(self, endpoint: Endpoint) -> None:
        """The address in use comes last, so that the next attempt begins with another one."""
        at = self._endpoints.index(endpoint) + 1
        self._endpoints = self._endpoints[at:] + self._endpoints[:at]

    def _adopt(self, connection: Connection) -> None:
        if connection.lost.done():
            return
        self._connection = connection
        # Subscriptions first: who publishes to itself expects to hear it.
        self.channels.attach(connection)
        self.outbox.attach(connection)

    def _end(self, error: EquipoiseError, *, is_clean: bool) -> None:
        self.channels.end(error, is_clean=is_clean)
        self.outbox.end(error)

    # What the connection tells.

    def on_read(self, connection: Connection) -> None:
        if connection is self._connection:
            self.outbox.pump()

    def on_lost(self, connection: Connection, error: EquipoiseError) -> None:
        if connection is not self._connection:
            return
        log.warning("lost the connection to the hub: %s; reconnecting", error)
        self._connection = None
        self.channels.detach()
        self.outbox.detach()
