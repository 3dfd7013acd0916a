"""A light smart client: the real protocol without the application API.

Thousands of light clients fit into one simulation. A client speaks RESP3 with positions, follows redirects to the home
of a topic (`eq.home`), waits for outstanding positions before it publishes elsewhere (EQ.SETTLE), subscribes at the new
home before it leaves the old one, merges by position and counts missing messages. Routing and merging are the code of
the Equipoise client (`client.routing.routes`, `stream.merge`). It has no queues: a function receives each message.

The client learns the home of a topic by publishing to it: a hub that is not the home forwards the message and names the
home before its reply. A client that never publishes subscribes at its first hub.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any

from equipoise.client.routing.routes import Route, Routes
from equipoise.client.url import Endpoint, parse_address
from equipoise.client.wire.codec import encode_publish, encode_request
from equipoise.coordinates import Coordinate, FinderSettings
from equipoise.lab.simulation.light_client.coordinates import LightFinding, StandingGateway
from equipoise.lab.simulation.light_client.link import (
    DeliveryCounts,
    LightLink,
    LightSubscription,
    SubscribedTopic,
)
from equipoise.model import Mode

__all__ = ["LightClient"]

# A connection without subscriptions closes after this time without a publish.
IDLE_S = 10.0
# Delay before a reconnect.
RETRY_S = 1.0
# Interval of the check whether one hub sends all streams of a topic, so that the client can subscribe at all homes.
RESEAT_S = 0.1
ROUTES_MAX = 10_000
_LINK_NAME_BYTES = 16
_PING = encode_request(b"PING")

Receive = Callable[[bytes, bytes], None]


class _Line:
    """Publishing state of one topic."""

    __slots__ = ("held", "hub", "settling")

    def __init__(self) -> None:
        # The hub that the client publishes to; None until it is known.
        self.hub: Endpoint | None = None
        # The former hub, until it confirms that all messages have their positions; messages are held meanwhile.
        self.settling: LightLink | None = None
        self.held: list[bytes] = []


class LightClient:
    """One client on one host. All methods are called on that host."""

    def __init__(
        self,
        entries: Sequence[Endpoint],
        counts: DeliveryCounts,
        receive: Receive,
        rng: Random,
        finding: FinderSettings | None = None,
    ) -> None:
        """`entries`: hubs for topics without a known home, as in the URL of a bus.

        `finding`: settings for finding and reporting the client's coordinate; None: the client has none.
        """
        self.counts = counts
        self.receive = receive
        self._entries = entries
        self._rng = rng
        self._loop = asyncio.get_running_loop()
        self._name = rng.randbytes(_LINK_NAME_BYTES).hex().encode()
        self._links: dict[Endpoint, LightLink] = {}
        self._routes = Routes(ROUTES_MAX, self._name)
        self._lines: dict[bytes, _Line] = {}
        self._subscribed: dict[bytes, SubscribedTopic] = {}
        # Topics to subscribe to once the reply to a publish names their home.
        self._wanted: dict[bytes, None] = {}
        self._is_closed = False
        self._where = None if finding is None else LightFinding(finding, entries, self._used_links, rng)

    # Calls of the program.

    def subscribe(self, topic: bytes) -> None:
        """Subscribe to a topic; if a publish is waiting for its home, once the home is known."""
        line = self._lines.get(topic)
        if line is not None and line.hub is None:
            self._wanted[topic] = None
        else:
            self._subscribe(topic)

    def unsubscribe(self, topic: bytes) -> None:
        self._wanted.pop(topic, None)
        subscribed = self._subscribed.pop(topic, None)
        if subscribed is not None:
            subscribed.leave()
        self._tidy()

    def is_live(self, topic: bytes) -> bool:
        """Whether a hub has confirmed the subscription."""
        subscribed = self._subscribed.get(topic)
        return subscribed is not None and subscribed.is_live

    def publish(self, topic: bytes, payload: bytes) -> None:
        request = encode_publish(topic, payload)
        line = self._lines.get(topic)
        if line is None:
            line = self._lines[topic] = _Line()
            link = self._link(self._entry())
            link.ask(request, lambda reply: self._found(topic, link))
            self._wake()
        elif line.hub is None or line.settling is not None:
            line.held.append(request)
        else:
            link = self._link(line.hub)
            link.used_at = self._loop.time()
            link.ask(request)

    @property
    def coordinate(self) -> Coordinate | None:
        """The coordinate of the client, if it has found one."""
        return None if self._where is None else self._where.finding.coordinate

    def use_gateway(self, gateway: Endpoint | str | StandingGateway | None, access_s: float = 0.0) -> None:
        """Change or remove the gateway, and report the change to the hubs in use.

        A gateway is an address, or an object with a `coordinate` and a round trip of `access_s`.
        """
        assert self._where is not None, "a client without `finding` has no coordinate"
        self._where.use_gateway(gateway, access_s)

    def close(self) -> None:
        self._is_closed = True
        if self._where is not None:
            self._where.finding.stop()
        for link in self._links.values():
            link.close()
        self._links.clear()

    # Calls of links.

    def on_push(self, link: LightLink, push: list[Any]) -> None:
        kind, topic = push[0], push[1]
        subscribed = self._subscribed.get(topic)
        if kind == b"eq.message":
            if subscribed is not None:
                subscribed.take_message(link, push)
        elif kind == b"eq.home":
            self._sent_home(topic, push[2], push[3], push[4:])
        elif kind == b"eq.settled":
            self._settled(topic, link)
        elif kind in (b"eq.subscribe", b"eq.own"):
            subscription = link.confirmed(topic, is_own=kind == b"eq.own")
            self._wake()
            if subscription is not None and subscribed is not None:
                subscribed.confirm(subscription, push)
        elif subscribed is not None:
            subscribed.take(link, push)

    def on_up(self, link: LightLink) -> None:
        self._wake()

    def on_refused(self, subscription: LightSubscription) -> None:
        """A hub rejected a subscription to its own streams: it is no longer a home. Another hub will name the homes."""
        subscribed = self._subscribed.get(subscription.topic)
        subscription.leave()
        if subscribed is not None:
            subscribed.merge.lost(subscription)
            self._rescue(subscribed)

    def on_lost(self, link: LightLink) -> None:
        """A connection was lost: continue at another hub or reconnect after a delay."""
        if self._is_closed:
            return
        self.counts.cuts += 1
        self._wake()
        if self._links.get(link.hub) is link:
            del self._links[link.hub]
        for line in self._lines.values():
            if line.settling is link or line.hub == link.hub:
                line.hub = line.settling = None
        for subscription in [one for table in link.subscriptions for one in table.values()]:
            subscribed = self._subscribed.get(subscription.topic)
            subscription.leave()
            if subscribed is not None:
                subscribed.merge.lost(subscription)
        self._loop.call_later(RETRY_S, self._recover)

    # Homes of topics.

    def _found(self, topic: bytes, link: LightLink) -> None:
        """The reply to a first publish: this hub is the home, unless it has named another."""
        line = self._lines[topic]
        if line.hub is None:
            line.hub = link.hub
            self._resume(topic, line)
        self._wake()

    def _sent_home(self, topic: bytes, version: int, mode: bytes, addresses: Sequence[bytes]) -> None:
        homes = [endpoint for address in addresses if (endpoint := parse_address(address)) is not None]
        is_news = self._routes.tell(topic, version, mode, homes, self._loop.time())
        route = self._routes.get(topic)
        if route is None or route.publish_at is None or route.version != version:
            return
        # A known route leads a client back that switched hubs after a disconnect.
        line = self._lines.get(topic)
        if line is not None:
            self._aim(topic, line, route.publish_at)
        subscribed = self._subscribed.get(topic)
        if subscribed is not None and (
            is_news or route.subscribe_at not in {link.hub for link in subscribed.links}
        ):
            self._seat(subscribed, route)

    def _aim(self, topic: bytes, line: _Line, target: Endpoint) -> None:
        """Publish to another hub from now on."""
        former, line.hub = line.hub, target
        if former is None:
            self._resume(topic, line)
        elif former != target and line.settling is None and former in self._links:
            line.settling = self._links[former]
            line.settling.ask(encode_request(b"EQ.SETTLE", topic))

    def _settled(self, topic: bytes, link: LightLink) -> None:
        line = self._lines.get(topic)
        if line is not None and line.settling is link:
            line.settling = None
            self._resume(topic, line)

    def _resume(self, topic: bytes, line: _Line) -> None:
        """The hub to publish to is known: send held messages, and subscribe if that was waiting for it."""
        assert line.hub is not None, "the hub is known"
        held, line.held = line.held, []
        link = self._link(line.hub)
        for request in held:
            link.ask(request)
        if topic in self._wanted:
            del self._wanted[topic]
            self._subscribe(topic)

    # Subscriptions.

    def _subscribe(self, topic: bytes) -> None:
        subscribed = self._subscribed[topic] = SubscribedTopic(topic, self.counts, self.receive)
        route, line = self._routes.get(topic), self._lines.get(topic)
        if route is not None:
            self._seat(subscribed, route)
        else:
            hub = line.hub if line is not None else None
            subscribed.merge.want([self._take(subscribed, hub or self._entry(), is_own=False)])

    def _seat(self, subscribed: SubscribedTopic, route: Route) -> None:
        """Subscribe to the topic at its homes."""
        if route.mode is not Mode.ALL_SUBSCRIBERS:
            assert route.subscribe_at is not None, "the hub names the home"
            subscribed.merge.want([self._take(subscribed, route.subscribe_at, is_own=False)])
            return
        merge, homes = subscribed.merge, route.homes
        spread = {subscription.link.hub for subscription in subscribed.wanted if subscription.is_own}
        if (spread and spread != set(homes)) or not any(merge.sources.values()):
            # Subscribe first at one hub that sends all streams, because the homes have changed and may change again. A
            # hub with a subscription to its own streams also sends each lane that starts after the request.
            if spread or not merge.wanted:
                merge.want([self._take(subscribed, route.subscribe_at or homes[0], is_own=False)])
        elif merge.is_changing and not spread:
            # The client has to leave the former homes first.
            self._loop.call_later(RESEAT_S, self._reseat, subscribed)
        else:
            merge.want([self._take(subscribed, home, is_own=True) for home in homes])

    def _reseat(self, subscribed: SubscribedTopic) -> None:
        route = self._routes.get(subscribed.topic)
        if route is not None and self._subscribed.get(subscribed.topic) is subscribed and not self._is_closed:
            self._seat(subscribed, route)

    def _take(self, subscribed: SubscribedTopic, hub: Endpoint, *, is_own: bool) -> LightSubscription:
        link = self._link(hub)
        is_known = subscribed.topic in link.subscriptions[is_own]
        subscription = link.subscription(subscribed.topic, is_own=is_own)
        if not is_known:
            # The hub lists the streams after its confirmation. The reply to a ping marks the end of the list.
            link.ask(_PING, lambda reply: self._greeted(subscription))
        return subscription

    def _greeted(self, subscription: LightSubscription) -> None:
        subscribed = self._subscribed.get(subscription.topic)
        if subscribed is not None and subscription.is_live and subscription in subscribed.merge.sources:
            subscribed.merge.greeted(subscription)
            route = self._routes.get(subscription.topic)
            if not subscription.is_own and route is not None:
                self._seat(subscribed, route)

    def _rescue(self, subscribed: SubscribedTopic) -> None:
        """Subscribe at any hub if the topic has no subscription left."""
        if not subscribed.merge.wanted:
            subscribed.merge.want([self._take(subscribed, self._entry(), is_own=False)])

    def _recover(self) -> None:
        """Find another hub for all topics of a lost connection."""
        if self._is_closed:
            return
        for subscribed in self._subscribed.values():
            self._rescue(subscribed)
        for topic, line in self._lines.items():
            if line.hub is None:
                line.hub = self._entry()
                self._resume(topic, line)

    # Connections.

    def _link(self, hub: Endpoint) -> LightLink:
        link = self._links.get(hub)
        if link is None:
            link = self._links[hub] = LightLink(self, hub, self._name)
            link.used_at = self._loop.time()
            self._loop.create_task(link.dial())
        return link

    def _entry(self) -> Endpoint:
        """A hub with a connection, else a random entry."""
        for hub in self._links:
            return hub
        return self._entries[int(self._rng.random() * len(self._entries))]

    def _used_links(self) -> Iterator[tuple[LightLink, bool]]:
        """Open connections, and whether a topic uses each."""
        hubs = {link.hub for subscribed in self._subscribed.values() for link in subscribed.links}
        hubs.update(line.hub for line in self._lines.values() if line.hub is not None)
        return ((link, hub in hubs) for hub, link in self._links.items() if link.is_up)

    def _wake(self) -> None:
        """Notify the coordinate agent of changed connections or topics."""
        if self._where is not None:
            self._where.finding.wake()

    def _tidy(self) -> None:
        """Close unused connections."""
        in_use = {link for subscribed in self._subscribed.values() for link in subscribed.links}
        in_use |= {line.settling for line in self._lines.values() if line.settling is not None}
        now = self._loop.time()
        for hub, link in list(self._links.items()):
            if link not in in_use and now - link.used_at > IDLE_S and len(self._links) > 1:
                del self._links[hub]
                link.close()
