"""The links of one bus: the base link, and one link per hub that is the home of a topic in use.

A link to a home is opened when a topic needs it, and closed when no topic uses it. An address that did not respond, or
whose link was lost, is not tried again before a delay, which grows.
"""

from __future__ import annotations

import asyncio
import random

from equipoise.client.url import Endpoint, parse_address
from equipoise.client.wire.dial import Backoff, ClientDialer
from equipoise.client.wire.link import CLIENT_BYTES, Link, LinkOwner

KNOWN_MAX = 16
"""Hubs kept for the case that no address of the URL responds."""


class Links:
    """Owned by the routing of one bus."""

    def __init__(self, dialer: ClientDialer, owner: LinkOwner, rng: random.Random) -> None:
        self._dialer = dialer
        self._owner = owner
        self._rng = rng
        self._settings = dialer.settings
        self.base = Link(dialer, owner, rng)
        self._homes: dict[Endpoint, Link] = {}
        # Addresses that did not respond, or were lost: the delay, and its end.
        self._backoffs: dict[Endpoint, tuple[Backoff, float]] = {}
        # Announced hubs, the latest last.
        self._known: dict[Endpoint, None] = {}
        # Closed links that may still have frames to send.
        self._leaving: dict[Link, None] = {}

    @property
    def all(self) -> list[Link]:
        return [self.base, *self._homes.values()]

    def known(self) -> list[Endpoint]:
        return list(self._known)

    def remember(self, hub: Endpoint) -> None:
        self._known.pop(hub, None)
        self._known[hub] = None
        if len(self._known) > KNOWN_MAX:
            del self._known[next(iter(self._known))]

    def at(self, endpoint: Endpoint, in_use: set[Link]) -> Link | None:
        """The link to this address, if it is up; else one is opened, if that is allowed."""
        connection = self.base.connection
        if connection is not None and connection.hub == str(endpoint).encode():
            return self.base
        link = self._homes.get(endpoint)
        if link is not None:
            return link if link.connection is not None else None
        _, until = self._backoffs.get(endpoint, (None, 0.0))
        if _now() >= until and (len(self._homes) < self._settings.links_max or self.close_idle(in_use)):
            client = self.base.name[:CLIENT_BYTES]
            link = self._homes[endpoint] = Link(self._dialer, self._owner, self._rng, endpoint, client)
            link.start()
        return None

    def on_up(self, link: Link) -> None:
        connection = link.connection
        if connection is not None and connection.is_among and self._settings.routing:
            hub = parse_address(connection.hub)
            if hub is not None:
                self.remember(hub)

    def on_over(self, link: Link) -> None:
        """A home's link has ended: do not use the address for a while."""
        endpoint = link.endpoint
        if endpoint is None or self._homes.get(endpoint) is not link:
            return
        del self._homes[endpoint]
        settings, now = self._settings, _now()
        backoff, until = self._backoffs.pop(endpoint, (None, 0.0))
        if backoff is None or now - until > settings.reconnect_max_s:
            backoff = Backoff(settings.reconnect_first_s, settings.reconnect_max_s, self._rng)
        self._backoffs[endpoint] = (backoff, now + backoff.next_s())
        if len(self._backoffs) > settings.links_max:
            del self._backoffs[next(iter(self._backoffs))]

    def close_idle(self, in_use: set[Link]) -> bool:
        """Close one unused link; return whether there was one. `in_use`: addresses that topics use."""
        for endpoint, link in self._homes.items():
            # Requests may be in flight on a link that no topic uses any more.
            is_idle = not len(link.subscriptions) and link not in in_use and not link.outbox.is_busy
            if is_idle and link.connection is not None:
                del self._homes[endpoint]
                self._leave(link)
                return True
        return False

    def leave_homes(self) -> None:
        for link in self._homes.values():
            self._leave(link)
        self._homes.clear()

    async def close(self) -> None:
        """Close all, within the close time-out."""
        ending = [one for link in self.all for one in link.hang_up()]
        try:
            if ending:
                await asyncio.wait(ending, timeout=self._settings.close_timeout_s)
        finally:
            for link in (*self.all, *self._leaving):
                link.abort()

    def _leave(self, link: Link) -> None:
        link.hang_up()
        self._leaving[link] = None
        asyncio.get_running_loop().call_later(self._settings.close_timeout_s, self._forget_left, link)

    def _forget_left(self, link: Link) -> None:
        link.abort()
        self._leaving.pop(link, None)


def _now() -> float:
    return asyncio.get_running_loop().time()
