"""Wait until all publishes on some links have replies."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from equipoise.client.publishing import PING, Publishing, late
from equipoise.client.topic_publisher import TopicPublisher
from equipoise.client.wire.link import Link
from equipoise.client.wire.requests import Ticket
from equipoise.errors import EquipoiseError, UncertainError

__all__ = ["flush"]

_Ping = tuple[Ticket, TopicPublisher | None, Link]


async def flush(
    publishing: Publishing, links: Callable[[], Sequence[Link]], timeout_s: float, *, is_last: bool
) -> None:
    """Wait until all publishes so far have replies; raise the first failure of a publish without receipt.

    `links` returns the present links: a publish that waits for another hub may use a link that is opened meanwhile.

    The time-out is paused while a topic is above its rate limit, unless the bus is being closed (`is_last`).
    """
    loop = asyncio.get_running_loop()
    # Replies are in order, so the reply to a ping shows that all before it have replies, or are deferred.
    pings: list[_Ping] = []
    for link in links():
        if link.connection is not None and link.outbox.is_busy:
            pings.append((Ticket(PING, 0, loop.create_future()), None, link))
            link.outbox.put(pings[-1][0])
    for publisher in publishing.publishers:
        if publisher.waiting:
            pings.append((Ticket(PING, 0, loop.create_future()), publisher, publisher.link))
            publishing.put(publisher, pings[-1][0])
    try:
        await _answers_to(publishing, pings, timeout_s, is_last=is_last)
        await _deferred_answers(publishing, links, timeout_s, is_last=is_last)
    except UncertainError as error:
        raise publishing.losses.take() or error from None
    loss = publishing.losses.take()
    if loss is not None:
        raise loss


async def _answers_to(publishing: Publishing, pings: list[_Ping], timeout_s: float, *, is_last: bool) -> None:
    failures: list[EquipoiseError] = []
    try:
        await _wait(publishing, [ticket.future for ticket, _, _ in pings], timeout_s, is_last=is_last)
    finally:
        for ticket, publisher, link in pings:
            if ticket.future.cancel():
                publishing.withdraw(ticket, publisher, link)
                failures.append(late(ticket, link, timeout_s))
            elif isinstance(error := ticket.future.exception(), EquipoiseError):
                failures.append(error)
    if failures:
        raise failures[0]


async def _deferred_answers(
    publishing: Publishing, links: Callable[[], Sequence[Link]], timeout_s: float, *, is_last: bool
) -> None:
    connections = [link.connection for link in links() if link.connection is not None]
    deferred = [connection.in_flight.deferred for connection in connections]
    answered = [one.answered() for one in deferred if len(one)]
    if not await _wait(publishing, answered, timeout_s, is_last=is_last):
        raise UncertainError(
            f"messages to topics above their rate limits have waited for {timeout_s:g} s; they may or may not be "
            "delivered: publish them again only if a duplicate does no harm"
        )


async def _wait(
    publishing: Publishing, futures: Iterable[asyncio.Future[Any]], timeout_s: float, *, is_last: bool
) -> bool:
    """Whether all are done in time."""
    left = set(futures)
    while left:
        _, left = await asyncio.wait(left, timeout=timeout_s)
        is_throttled = any(publisher.throttle is not None for publisher in publishing.publishers)
        if left and (is_last or not is_throttled):
            return False
    return True
