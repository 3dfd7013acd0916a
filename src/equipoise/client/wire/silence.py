"""Notice a peer that is silent: a host that vanished says nothing, and TCP takes a quarter of an hour to doubt it."""

from __future__ import annotations

import asyncio

from equipoise.client.wire.connection import Connection
from equipoise.errors import DisconnectedError

__all__ = ["watch"]


async def watch(connection: Connection, interval_s: float, unanswered_max: int) -> None:
    """Return when the connection is lost; ping it meanwhile and give it up when it stays silent.

    Anything that comes in is an answer: a peer busy with other things is not silent.
    """
    unanswered = 0
    while not connection.lost.done():
        await asyncio.wait([connection.lost], timeout=interval_s)
        if connection.is_heard:
            unanswered = 0
        if unanswered >= unanswered_max:
            connection.abort(DisconnectedError(f"{unanswered} pings unanswered, {interval_s:g} s apart"))
            return
        connection.is_heard = False
        connection.tell(b"PING")
        unanswered += 1
