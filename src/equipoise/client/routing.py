"""Go where topics live: which links there are, and which of them serves what.

Hubs tell where a topic lives (routes.py). For each topic in use the home is connected to, then its subscription changes
over (merging.py) and its publisher (publishing.py). Until that has come about, and whenever a home cannot be reached,
the base serves: the hub of the URL relays whatever lives elsewhere. So nothing depends on being told, being told right,
or getting there.

    told, or a link lost  ──►  restless: tried at once, and every TICK_S  ──►  settled, where it was told to be

What a hub says too often is followed no faster than a topic can move. Addresses that do not answer are tried again with
growing delays.
"""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING, cast

from equipoise.client.backoff import Backoff
from equipoise.client.channels import Channels
from equipoise.client.greeting import Dialer
from equipoise.client.link import Link
from equipoise.client.publishing import Publishing
from equipoise.client.requests import NowaitLosses, Request
from equipoise.client.routes import Route, Routes
from equipoise.client.url import Endpoint, parse_address
from equipoise.errors import ClosedError, EquipoiseError, RefusedError
from equipoise.model import Mode

if TYPE_CHECKING:
    from equipoise.client.channel import TopicChannel
    from equipoise.client.names import NameSeat

TICK_S = 0.25
"""Between two attempts to bring topics to where they live."""
MOVE_S = 0.25
"""Between two changes of one topic's subscription: a plan does not change as fast."""
REFUSED_S = 5.0
"""Before a home is asked again that refused a subscription which another hub serves."""
KNOWN_MAX = 16
"""Hubs remembered for when none of the URL answers."""


class Routing:
    """Owned by one bus, which calls `open` and `close` once each, in this order."""

    def __init__(self, dialer: Dialer, rng: random.Random) -> None:
        settings = dialer.settings
        self._dialer = dialer
        self._rng = rng
        self._settings = settings
        self.losses = NowaitLosses()
        self.base = Link(dialer, self, rng)
        self._homes: dict[Endpoint, Link] = {}
        # No two clients have links of the same name.
        self._routes = Routes(settings.routes_max, self.base.name)
        self.channels = Channels(settings, self._link_to_subscribe, self.base)
        self.publishing = Publishing(
            settings, self.losses, self.base, link_for=self._link_to_publish, has_lanes=self._has_lanes
        )
        # By topic, the homes that it was last spread over.
        self._spread: dict[bytes, tuple[Endpoint, ...]] = {}
        # Topics that are not where they should be.
        self._restless: dict[bytes, None] = {}
        # When a topic's subscription may change next.
        self._rests_until: dict[bytes, float] = {}
        # Addresses that did not answer, or were lost: how long to wait, and until when.
        self._backoffs: dict[Endpoint, tuple[Backoff, float]] = {}
        self._known: dict[Endpoint, None] = {}
        # Streams that waited for a source to catch up when last looked at, and what for.
        self._were_waiting: dict[TopicChannel, object] = {}
        self._ticking: asyncio.TimerHandle | None = None
        self._sweeping: asyncio.TimerHandle | None = None
        # Links that were hung up and may still have something to send.
        self._leaving: set[Link] = set()

    async def open(self) -> None:
        await self.base.open()
        self._sweeping = asyncio.get_running_loop().call_later(self._sweep_s, self._sweep)

    async def close(self) -> None:
        """Stop at once, within the close time-out at most."""
        self._end(ClosedError("the bus is closed; connect again for another"), is_clean=True)
        ending = [one for link in self.links for one in link.hang_up()]
        try:
            if ending:
                await asyncio.wait(ending, timeout=self._settings.close_timeout_s)
        finally:
            for link in (*self.links, *self._leaving):
                link.abort()

    @property
    def links(self) -> list[Link]:
        return [self.base, *self._homes.values()]

    def _end(self, error: EquipoiseError, *, is_clean: bool) -> None:
        for timer in (self._ticking, self._sweeping):
            if timer is not None:
                timer.cancel()
        self._ticking = self._sweeping = None
        self.channels.end(error, is_clean=is_clean)
        self.publishing.end(error, [request for link in self.links for request in link.outbox.take_unsent()])

    # Where to go.

    def on_home(self, push: list[object]) -> None:
        """A hub says where a topic lives. Of topics that nobody here uses nothing is kept."""
        topic, version, mode = cast(bytes, push[1]), cast(int, push[2]), push[3]
        homes = [home for home in map(parse_address, push[4:]) if home is not None]
        if not self._settings.routing or not isinstance(version, int):
            return
        if topic not in self.channels.topics and topic not in self.publishing:
            return
        if self._routes.tell(topic, version, mode, homes, self._now()):
            for home in homes:
                self._remember(home)
            self._place(topic)

    def known_hubs(self) -> list[Endpoint]:
        return list(self._known)

    def _remember(self, hub: Endpoint) -> None:
        self._known.pop(hub, None)
        self._known[hub] = None
        if len(self._known) > KNOWN_MAX:
            del self._known[next(iter(self._known))]

    def _link_to_subscribe(self, topic: bytes) -> Link:
        route = self._routes.get(topic)
        return self._up_link(route, None if route is None else route.subscribe_at, topic)

    def _link_to_publish(self, topic: bytes) -> Link:
        route = self._routes.get(topic)
        return self._up_link(route, None if route is None else route.publish_at, topic)

    def _up_link(self, route: Route | None, endpoint: Endpoint | None, topic: bytes) -> Link:
        """The link to there if it is up, else the base."""
        if route is None or endpoint is None:
            return self.base
        self._rouse(topic)
        return self._link_at(endpoint) or self.base

    def _link_at(self, endpoint: Endpoint) -> Link | None:
        """The link that leads there, if it is up; else one is made, if it may be."""
        connection = self.base.connection
        if connection is not None and connection.hub == str(endpoint).encode():
            return self.base
        link = self._homes.get(endpoint)
        if link is not None:
            return link if link.connection is not None else None
        _, until = self._backoffs.get(endpoint, (None, 0.0))
        if self._now() >= until and (len(self._homes) < self._settings.links_max or self._close_idle()):
            link = self._homes[endpoint] = Link(self._dialer, self, self._rng, endpoint)
            link.start()
        return None

    # Getting there.

    def _place(self, topic: bytes) -> None:
        """Bring a topic to where it lives, as far as that is possible now."""
        route = self._routes.get(topic)
        is_settled = True
        if route is not None:
            channel = self.channels.topics.get(topic)
            if channel is not None:
                is_settled = self._seat(channel, route)
            if topic in self.publishing and route.publish_at is not None:
                link = self._link_at(route.publish_at)
                is_settled &= link is not None and self.publishing.aim(topic, link)
        if is_settled:
            self._restless.pop(topic, None)
        else:
            self._rouse(topic)

    def _seat(self, channel: TopicChannel, route: Route) -> bool:
        links, is_best = self._links_to_subscribe(channel, route)
        if not links:
            return False
        if self.channels.is_seated(channel, links):
            return is_best and not channel.merge.is_changing
        now = self._now()
        if now >= self._rests_until.get(channel.name, 0.0):
            self._rests_until[channel.name] = now + MOVE_S
            self.channels.seat(channel, links)
        return False

    def _has_lanes(self, topic: bytes) -> bool:
        route = self._routes.get(topic)
        return route is not None and route.mode is Mode.ALL_SUBSCRIBERS

    def _links_to_subscribe(
        self, channel: TopicChannel, route: Route
    ) -> tuple[list[tuple[Link, bool]], bool]:
        """Where a topic is to be subscribed to, as far as it can be now; and whether nothing is left to be wished for.

        Of a topic with lanes every home brings its own, once all of them can be reached; until then, and between two
        sets of homes, one brings all.
        """
        assert route.subscribe_at is not None, "a route leads somewhere"
        is_spread = route.mode is Mode.ALL_SUBSCRIBERS and len(route.homes) > 1
        if is_spread:
            merge = channel.merge
            links = [self._link_at(home) for home in route.homes]
            found = list(dict.fromkeys(link for link in links if link is not None))
            is_own = any(seat.is_own for seat in merge.wanted)
            if None not in links and not is_own and not merge.is_changing:
                self._spread[channel.name] = route.homes
            if (
                None not in links
                and (is_own or not merge.is_changing)
                and self._spread.get(channel.name) == route.homes
            ):
                return [(link, True) for link in found], True
        link = self._link_at(route.subscribe_at)
        return ([] if link is None else [(link, False)]), not is_spread

    def _rouse(self, topic: bytes) -> None:
        self._restless[topic] = None
        if self._ticking is None and self._sweeping is not None:
            self._ticking = asyncio.get_running_loop().call_later(TICK_S, self._tick)

    def _tick(self) -> None:
        self._ticking = None
        for topic in list(self._restless):
            self._place(topic)
        if self._restless and self._ticking is None:
            self._ticking = asyncio.get_running_loop().call_later(TICK_S, self._tick)

    # What links tell.

    def on_up(self, link: Link) -> None:
        connection = link.connection
        if connection is not None and connection.is_among:
            hub = parse_address(connection.hub)
            if hub is not None:
                self._remember(hub)
        self.publishing.on_up(link)
        for topic in self._routes if link.endpoint is None else self._routes.topics_at(link.endpoint):
            self._place(topic)

    def on_down(self, link: Link, unsent: list[Request]) -> None:
        if link is self.base:
            self.channels.on_down(link)
        self.publishing.on_down(link, unsent, is_base=link is self.base)

    def on_over(self, link: Link, error: EquipoiseError | None) -> None:
        if link is self.base:
            self._end(error or ClosedError("the bus is closed"), is_clean=False)
            for home in self._homes.values():
                self._leave(home)
            self._homes.clear()
            return
        assert link.endpoint is not None, "every link but the base leads somewhere"
        if self._homes.get(link.endpoint) is link:
            del self._homes[link.endpoint]
            self._put_off(link.endpoint)
        self.channels.on_over(link)
        for topic in self._routes.topics_at(link.endpoint):
            self._rouse(topic)

    def on_refused(self, seat: NameSeat, error: RefusedError | None) -> None:
        # A hub that does not know the plan yet by which it is a home will soon.
        is_early = error is not None and error.code == "NOTHOME"
        self._rests_until[seat.channel.name] = self._now() + (MOVE_S if is_early else REFUSED_S)
        self._rouse(seat.channel.name)
        self.channels.on_refused(seat, error)

    def _put_off(self, endpoint: Endpoint) -> None:
        """Do not go there for a while."""
        settings, now = self._settings, self._now()
        known = self._backoffs.pop(endpoint, None)
        if known is None or now - known[1] > settings.reconnect_max_s:
            backoff = Backoff(settings.reconnect_first_s, settings.reconnect_max_s, self._rng)
        else:
            backoff = known[0]
        self._backoffs[endpoint] = (backoff, now + backoff.next_s())
        if len(self._backoffs) > self._settings.links_max:
            del self._backoffs[next(iter(self._backoffs))]

    # Housekeeping.

    @property
    def _sweep_s(self) -> float:
        return min(self._settings.route_s, self._settings.merge_s) / 2

    def _sweep(self) -> None:
        """Forget what is not used, close what leads nowhere, and wait for no stream too long."""
        now = self._now()
        self._sweeping = asyncio.get_running_loop().call_later(self._sweep_s, self._sweep)
        self.publishing.expire(now, now - self._settings.route_s - self._sweep_s)
        in_use = {*self.channels.topics, *self.publishing.topics}
        for topic in self._routes.expire(now - self._settings.route_s, in_use):
            self._restless.pop(topic, None)
        self._spread = {
            topic: homes for topic, homes in self._spread.items() if topic in self.channels.topics
        }
        self._rests_until = {topic: at for topic, at in self._rests_until.items() if at > now}
        while self._close_idle():
            pass
        channels = self.channels.topics.values()
        waiting = {channel: channel.merge.awaits for channel in channels if channel.merge.awaits is not None}
        for channel, awaited in waiting.items():
            if self._were_waiting.get(channel) == awaited:
                channel.merge.hurry()
        self._were_waiting = waiting

    def _close_idle(self) -> bool:
        """Close one link that nothing uses; whether there was one."""
        in_use = self.publishing.links_in_use()
        for endpoint, link in self._homes.items():
            # Receipts may still be owed on a link that nothing is aimed at any more.
            is_idle = not len(link.names) and link not in in_use and not link.outbox.is_busy
            if is_idle and link.connection is not None:
                del self._homes[endpoint]
                self._leave(link)
                return True
        return False

    def _leave(self, link: Link) -> None:
        link.hang_up()
        self._leaving.add(link)
        asyncio.get_running_loop().call_later(self._settings.close_timeout_s, self._forget_left, link)

    def _forget_left(self, link: Link) -> None:
        link.abort()
        self._leaving.discard(link)

    def _now(self) -> float:
        return asyncio.get_running_loop().time()
