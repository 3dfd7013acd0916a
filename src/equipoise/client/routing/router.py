"""Route subscriptions and publishes to the hubs that are homes of their topics.

Hubs announce the homes of topics (routes.py). For each topic in use the client connects to the home, then its
subscription (stream/merge.py) and its publisher (publishing.py) switch to it. Until then, and whenever a home is
unreachable, the base serves: the hub of the URL relays topics of other hubs. So delivery does not depend on redirects
being sent, being correct, or naming a reachable hub.

    redirected, or a link lost  ──►  misplaced: tried at once, and every TICK_S  ──►  settled at the redirect's target

Frequent redirects are followed no faster than a topic can move.
"""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING

from equipoise.client.coordinate_agent import BusTransport, CoordinateAgent, finder_settings
from equipoise.client.flush import flush
from equipoise.client.numbered_publishing import NumberedPublishing
from equipoise.client.publishing import Publishing
from equipoise.client.routing.channels import Channels
from equipoise.client.routing.routes import Route, Routes, SubscribeTarget, is_spread, next_targets
from equipoise.client.url import Endpoint, parse_address
from equipoise.client.wire.dial import ClientDialer
from equipoise.client.wire.link import Link
from equipoise.client.wire.link_subscription import seek
from equipoise.client.wire.links import Links
from equipoise.client.wire.log_link import LogLink
from equipoise.client.wire.requests import NowaitLosses, Push, Request
from equipoise.coordinates import Finder
from equipoise.errors import ClosedError, EquipoiseError, RefusedError, UncertainError
from equipoise.model import Mode

if TYPE_CHECKING:
    from equipoise.client.routing.channel import TopicChannel
    from equipoise.client.wire.connection import Connection
    from equipoise.client.wire.link_subscription import AnySubscription

TICK_S = 0.25
"""Interval of attempts to switch misplaced topics."""
MOVE_S = 0.25
"""Least time between two changes of one topic's subscription: plans do not change faster."""
REFUSED_S = 5.0
"""Delay before the next attempt at a home that refused a subscription which another hub serves."""


class ClientRouter:
    """Owned by one bus, which calls `open` and `close` once each, in this order."""

    def __init__(self, dialer: ClientDialer, rng: random.Random) -> None:
        settings = dialer.settings
        self._dialer = dialer
        self._settings = settings
        self._rng = rng
        self.losses = NowaitLosses()
        self._links = Links(dialer, self, rng)
        self.base = base = self._links.base
        # No two clients have links with the same name.
        self._routes = Routes(settings.routes_max, base.name)
        self.channels = Channels(settings, self._link_to_subscribe, base)
        self.publishing = Publishing(settings, self.losses, self._link_to_publish, base)
        self.numbered = NumberedPublishing(self.publishing, settings, rng, base)
        # Topics that do not use their wanted links.
        self._misplaced: dict[bytes, None] = {}
        # When a subscription may change next, by topic and filter.
        self._next_change_at: dict[tuple[bytes, bytes], float] = {}
        # Topics that waited at the last check, and the awaited state.
        self._were_waiting: dict[TopicChannel, object] = {}
        self._transport = BusTransport(dialer, self._links, self.publishing, rng)
        # Runs while the bus is open, unless disabled.
        self.coordinate_agent: CoordinateAgent | None = None
        self._ticking: asyncio.TimerHandle | None = None
        self._sweeping: asyncio.TimerHandle | None = None

    async def open(self) -> None:
        await self.base.open()
        if self._settings.coordinate_enabled:
            finder = Finder(self._rng.random, finder_settings(self._settings))
            self.coordinate_agent = CoordinateAgent(finder, self._transport)
            self.coordinate_agent.use_gateway(self._settings.coordinate_gateway or None)
        self._sweeping = asyncio.get_running_loop().call_later(self._sweep_s, self._sweep)

    async def close(self) -> None:
        """Stop, within the close time-out."""
        ending = [*self._stop_agent(), *self.numbered.end(ClosedError("the bus is closed"))]
        self._end(ClosedError("the bus is closed; call connect() again"), is_clean=True)
        await self._links.close()
        if ending:
            # Already cancelled: they end at once.
            await asyncio.wait(ending, timeout=self._settings.close_timeout_s)

    def make_log_link(self) -> LogLink:
        """A separate connection for requests about logs; the caller closes it."""
        return LogLink(self._dialer, self.known_hubs, self._rng)

    async def flush(self, timeout_s: float, *, is_last: bool = False) -> None:
        try:
            await self.numbered.flush(timeout_s)
        except UncertainError as error:
            raise self.losses.take() or error from None
        await flush(self.publishing, lambda: self._links.all, timeout_s, is_last=is_last)

    def _end(self, error: EquipoiseError, *, is_clean: bool) -> None:
        for timer in (self._ticking, self._sweeping):
            if timer is not None:
                timer.cancel()
        self._ticking = self._sweeping = None
        self._stop_agent()
        self.channels.end(error, is_clean=is_clean)
        self.numbered.end(error)
        unsent = [request for link in self._links.all for request in link.outbox.take_unsent()]
        self.publishing.end(error, unsent)

    def _wake_agent(self) -> None:
        """Links, or the topics that they serve, have changed."""
        if self.coordinate_agent is not None:
            self.coordinate_agent.wake()

    def _stop_agent(self) -> list[asyncio.Task[None]]:
        agent, self.coordinate_agent = self.coordinate_agent, None
        return [] if agent is None else agent.stop()

    # Redirects.

    def on_home(self, push: Push) -> None:
        """A hub has announced the homes of a topic. Ignored for topics that are not in use here."""
        topic, version, mode = push[1:4]
        homes = [home for home in map(parse_address, push[4:]) if home is not None]
        if not self._settings.routing or not isinstance(version, int):
            return
        if topic not in self.channels and topic not in self.publishing:
            return
        if self._routes.tell(topic, version, mode, homes, self._now()):
            for home in homes:
                self._links.remember(home)
            self._place(topic)

    def on_seat(self, push: Push) -> None:
        """A hub has assigned a home of a split topic, or a head of a content topic, to this publisher."""
        topic, version, address = push[1:4]
        home = parse_address(address)
        if home is not None and isinstance(version, int) and self._routes.seat(topic, version, home):
            self._place(topic)

    def on_edge(self, channel: TopicChannel, words: Push) -> None:
        """A hub has assigned a subscription by filter to a home: version, address, the session, and the number of
        subscriptions that it moves there."""
        version, address, session, total = words
        edge = parse_address(address)
        if edge is None or not isinstance(version, int) or not self._settings.routing:
            return
        if self._routes.may_be_edge(channel.name, version, edge):
            channel.edge = edge
            channel.migration = (b"SESSION", bytes(session), b"%d" % total) if session else ()
            self._place(channel.name)

    def on_durable(self, version: int) -> None:
        self.numbered.learn(version)

    def on_deferred(self, connection: Connection, topic: bytes, ahead: int) -> None:
        self.publishing.throttle(connection, topic, ahead)

    def on_deferred_reply(self, topic: bytes) -> None:
        self.publishing.go_on(topic)

    def known_hubs(self) -> list[Endpoint]:
        return self._links.known()

    def _link_to_subscribe(self, topic: bytes) -> Link:
        route = self._routes.get(topic)
        return self._up_link(topic, None if route is None else route.subscribe_at)

    def _link_to_publish(self, topic: bytes) -> Link:
        route = self._routes.get(topic)
        return self._up_link(topic, None if route is None else route.publish_at)

    def _up_link(self, topic: bytes, endpoint: Endpoint | None) -> Link:
        """The link to this address if it is up, else the base."""
        self._wake_agent()
        if endpoint is None:
            return self.base
        self._retry_soon(topic)
        return self._link_at(endpoint) or self.base

    def _link_at(self, endpoint: Endpoint) -> Link | None:
        return self._links.at(endpoint, self.publishing.links_in_use)

    # Switching.

    def _place(self, topic: bytes) -> None:
        """Switch a topic to its wanted links, as far as that is possible now."""
        route = self._routes.get(topic)
        is_settled = True
        if route is not None:
            for channel in self.channels.of(topic):
                is_settled &= self._move_subscription(channel, route)
            if topic in self.publishing and route.publish_at is not None:
                link = self._link_at(route.publish_at)
                is_settled &= link is not None and self.publishing.aim(topic, link)
        if is_settled:
            self._misplaced.pop(topic, None)
        else:
            self._retry_soon(topic)

    def _move_subscription(self, channel: TopicChannel, route: Route) -> bool:
        """Switch a subscription to the topic's homes; whether it has arrived."""
        link = self._link_at(self._subscribe_at(channel, route))
        homes = [self._link_at(home) for home in route.homes]
        if link is None:
            return False
        seek(channel)
        # With a filter all of the topic is received over one link: its hub follows the lanes and matches once.
        if route.mode is Mode.ALL_SUBSCRIBERS and len(homes) > 1 and not channel.where:
            found = list(dict.fromkeys(home for home in homes if home is not None))
            targets = next_targets(channel, link, found) if None not in homes else None
            if targets is None:
                return None not in homes and is_spread(channel)
        elif self.channels.is_whole_at(channel, link):
            return not channel.merge.is_changing
        else:
            targets = [SubscribeTarget(link)]
        now = self._now()
        if now >= self._next_change_at.get(channel.key, 0.0):
            self._next_change_at[channel.key] = now + MOVE_S
            self.channels.subscribe_at(channel, targets)
        return False

    def _subscribe_at(self, channel: TopicChannel, route: Route) -> Endpoint:
        """The hub to which it was sent; else, by filter of a content topic, its present hub; else by the route."""
        if channel.edge is not None and channel.edge in route.homes:
            return channel.edge
        connection = self.base.connection
        if channel.where and route.mode is Mode.CONTENT and connection is not None:
            came_to = parse_address(connection.hub)
            if came_to is not None and came_to in route.homes[1:]:
                return came_to
        assert route.subscribe_at is not None, "a route has a home"
        return route.subscribe_at

    def _retry_soon(self, topic: bytes) -> None:
        self._misplaced[topic] = None
        if self._ticking is None and self._sweeping is not None:
            self._ticking = asyncio.get_running_loop().call_later(TICK_S, self._tick)

    def _tick(self) -> None:
        self._ticking = None
        for topic in list(self._misplaced):
            self._place(topic)
        if self._misplaced and self._ticking is None:
            self._ticking = asyncio.get_running_loop().call_later(TICK_S, self._tick)

    # Events of links.

    def on_up(self, link: Link) -> None:
        self._links.on_up(link)
        self._wake_agent()
        self.publishing.on_up(link)
        for topic in self._routes if link.endpoint is None else self._routes.topics_at(link.endpoint):
            self._place(topic)

    def on_down(self, link: Link, unsent: list[Request]) -> None:
        if link is self.base:
            self.channels.on_down(link)
        self.publishing.on_down(link, unsent, is_base=link is self.base)

    def on_over(self, link: Link, error: EquipoiseError | None) -> None:
        if link.endpoint is None:
            self._end(error or ClosedError("the bus is closed"), is_clean=False)
            self._links.leave_homes()
            return
        self._links.on_over(link)
        self.channels.on_over(link)
        for topic in self._routes.topics_at(link.endpoint):
            self._retry_soon(topic)
        self._routes.leave(link.endpoint)

    def on_refused(self, subscription: AnySubscription, error: RefusedError | None) -> None:
        # A hub without the plan by which it is a home will receive it soon.
        is_early = error is not None and error.code == "NOTHOME"
        if not subscription.channel.is_pattern:
            # Another hub may have sent it there; it stays.
            subscription.channel.edge = None
        self._next_change_at[subscription.channel.key] = self._now() + (MOVE_S if is_early else REFUSED_S)
        self._retry_soon(subscription.channel.name)
        self.channels.on_refused(subscription, error)

    # Housekeeping.

    @property
    def _sweep_s(self) -> float:
        return min(self._settings.route_idle_s, self._settings.merge_timeout_s) / 2

    def _sweep(self) -> None:
        """Drop unused topics, close unused links, and end waits that take too long."""
        now = self._now()
        self._sweeping = asyncio.get_running_loop().call_later(self._sweep_s, self._sweep)
        self.publishing.expire(now, now - self._settings.route_idle_s - self._sweep_s)
        in_use = {*self.channels.topics, *self.publishing.topics}
        for topic in self._routes.expire(now - self._settings.route_idle_s, in_use):
            self._misplaced.pop(topic, None)
        self._next_change_at = {key: at for key, at in self._next_change_at.items() if at > now}
        while self._links.close_idle(self.publishing.links_in_use):
            pass
        channels = self.channels.each_topic()
        waiting = {channel: channel.merge.awaits for channel in channels if channel.merge.awaits is not None}
        for channel, awaited in waiting.items():
            seek(channel)
            if self._were_waiting.get(channel) == awaited:
                channel.merge.give_up_waiting()
        self._were_waiting = waiting

    def _now(self) -> float:
        return asyncio.get_running_loop().time()
