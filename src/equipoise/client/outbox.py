"""Admit publishes to the connection: at most a window of them may be without receipt.

Beyond the window, and while there is no connection, a publish with receipt waits its turn in order; one
without is refused at once. Nothing sent is ever sent again: what was under way when a connection is lost is
uncertain and its publisher is told.

The waiting line needs no bound of its own: each place in it is a caller that waits.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict

from equipoise.client.codec import encode_request
from equipoise.client.connection import Connection
from equipoise.client.owed import NowaitLosses, Ticket
from equipoise.client.settings import ClientSettings
from equipoise.errors import BackloggedError, DisconnectedError, EquipoiseError, UncertainError, WorldError

_PING = encode_request(b"PING")


class Outbox:
    """Owned by one link."""

    def __init__(self, settings: ClientSettings) -> None:
        self._messages_max = settings.window_messages_max
        self._bytes_max = settings.window_bytes_max
        self._connection: Connection | None = None
        self._line: OrderedDict[Ticket, None] = OrderedDict()
        # Why nothing will ever be sent again, once that is so.
        self._end: EquipoiseError | None = None
        self.losses = NowaitLosses()

    async def submit(self, frame: bytes, size: int, timeout_s: float) -> object:
        """Send in turn and return the reply. When cancelled, what has been sent stays sent."""
        if self._end is not None:
            raise self._end.with_traceback(None)
        ticket = Ticket(frame, size, asyncio.get_running_loop().create_future())
        connection = self._connection
        if connection is not None and not self._line and self._has_room(connection, size):
            connection.submit(ticket)
        else:
            self._line[ticket] = None
        try:
            async with asyncio.timeout(timeout_s):
                return await ticket.future
        except TimeoutError:
            if ticket.future.cancelled():
                raise self._late(ticket, timeout_s) from None
            # After a pause of this program the answer and the time-out may both be there: the answer counts.
            return ticket.future.result()
        finally:
            self._line.pop(ticket, None)

    def submit_nowait(self, frame: bytes, size: int) -> None:
        connection = self._connection
        if connection is None:
            raise self._end or DisconnectedError(
                "there is no connection to a hub now; publish() waits for one, publish_nowait() cannot"
            )
        if self._line or not self._has_room(connection, size):
            raise BackloggedError(
                f"{connection.owed.messages} publishes ({connection.owed.bytes} bytes) have no receipt yet; "
                "await flush() or use publish(), which waits by itself"
            )
        connection.owed.add_nowait(size)
        connection.send(frame)

    async def flush(self, timeout_s: float) -> None:
        """Wait until everything submitted so far is answered; raise the first failure without receipt."""
        if self._line or (self._connection is not None and self._connection.owed.messages):
            try:
                # Answers come in order, so the answer to a ping says that all before it have come.
                await self.submit(_PING, 0, timeout_s)
            except UncertainError as error:
                raise self.losses.take() or error from None
        loss = self.losses.take()
        if loss is not None:
            raise loss

    def _has_room(self, connection: Connection, size: int) -> bool:
        owed = connection.owed
        return owed.messages < self._messages_max and owed.bytes + size <= self._bytes_max

    def _late(self, ticket: Ticket, timeout_s: float) -> WorldError:
        if ticket.is_sent:
            return UncertainError(
                f"no receipt came within {timeout_s:g} s; the message may or may not have been delivered: "
                "publish it again only if a duplicate does no harm"
            )
        if self._connection is None:
            return DisconnectedError(
                f"no connection to a hub for {timeout_s:g} s, so the message was not sent; "
                "check that the hub runs and can be reached"
            )
        return BackloggedError(
            f"the hub was too slow with receipts for {timeout_s:g} s, so the message was not sent; "
            "publish less at a time"
        )

    # What the link tells.

    def attach(self, connection: Connection) -> None:
        self._connection = connection
        self.pump()

    def detach(self) -> None:
        self._connection = None

    def pump(self) -> None:
        """Send from the line what the window has room for."""
        connection = self._connection
        while self._line and connection is not None:
            ticket = next(iter(self._line))
            if not self._has_room(connection, ticket.size):
                return
            del self._line[ticket]
            if not ticket.future.done():
                connection.submit(ticket)

    def end(self, error: EquipoiseError) -> None:
        """Nothing will be sent any more: tell those who wait, and whoever comes."""
        self._end = error
        self._connection = None
        for ticket in self._line:
            ticket.fail(error)
        self._line.clear()
