"""A light smart client: the real protocol without the application API.

Thousands of them fit into one simulation. It speaks RESP3 with positions, goes where hubs tell it that a topic lives
(`eq.home`), waits for what it is owed before it publishes elsewhere (EQ.SETTLE), subscribes at the new home before it
leaves the old one, merges by position and counts what is missing. Where to go and how to merge are the Equipoise
client's own (`client.routing.routes`, `stream.merge`). It keeps no queues: a message goes to a function as it comes.

Where a topic lives is found out by publishing to it: a hub where it does not live passes the message on and says where
it does, ahead of its reply. Only a client that never publishes subscribes wherever it is first.
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
    Hearing,
    LightLink,
    LightSubscription,
)
from equipoise.model import Mode

__all__ = ["LightClient"]

# A connection that nothing was published on for so long, and nothing is heard on, is closed.
IDLE_S = 10.0
# Before a lost connection is made again.
RETRY_S = 1.0
# Between two looks whether a topic is wholly at one hub, so that it can be spread over its homes.
RESEAT_S = 0.1
ROUTES_MAX = 10_000
_LINK_NAME_BYTES = 16
_PING = encode_request(b"PING")

Receive = Callable[[bytes, bytes], None]


class _Line:
    """How one topic is published."""

    __slots__ = ("held", "hub", "settling")

    def __init__(self) -> None:
        # Where its messages go; None until that is known.
        self.hub: Endpoint | None = None
        # The hub that has yet to say that all it was given has its position; meanwhile messages are held.
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
        """`entries`: hubs to ask about topics that nothing is known of, as in the URL of a bus.

        `finding`: how the client finds and tells where it is; None: it does neither.
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
        self._heard: dict[bytes, Hearing] = {}
        # Topics wanted whose home is being asked for.
        self._wanted: dict[bytes, None] = {}
        self._is_closed = False
        self._where = None if finding is None else LightFinding(finding, entries, self._used_links, rng)

    # What the program does.

    def subscribe(self, topic: bytes) -> None:
        """Hear a topic. If its home is being asked for by a message, from when that is known."""
        line = self._lines.get(topic)
        if line is not None and line.hub is None:
            self._wanted[topic] = None
        else:
            self._hear(topic)

    def unsubscribe(self, topic: bytes) -> None:
        self._wanted.pop(topic, None)
        heard = self._heard.pop(topic, None)
        if heard is not None:
            heard.leave()
        self._tidy()

    def is_live(self, topic: bytes) -> bool:
        """Whether a subscription stands."""
        heard = self._heard.get(topic)
        return heard is not None and heard.is_live

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
        """Where it is, as far as it knows."""
        return None if self._where is None else self._where.finding.coordinate

    def use_gateway(self, gateway: Endpoint | str | StandingGateway | None, access_s: float = 0.0) -> None:
        """Be behind another gateway from now on, or none, and say so at once to the hubs in use.

        A gateway is an address, or an object that knows its `coordinate`, `access_s` of round trip away.
        """
        assert self._where is not None, "a client without `finding` has no place"
        self._where.use_gateway(gateway, access_s)

    def close(self) -> None:
        self._is_closed = True
        if self._where is not None:
            self._where.finding.stop()
        for link in self._links.values():
            link.close()
        self._links.clear()

    # What hubs say.

    def on_push(self, link: LightLink, push: list[Any]) -> None:
        kind, topic = push[0], push[1]
        heard = self._heard.get(topic)
        if kind == b"eq.message":
            if heard is not None:
                heard.take_message(link, push)
        elif kind == b"eq.home":
            self._sent_home(topic, push[2], push[3], push[4:])
        elif kind == b"eq.settled":
            self._settled(topic, link)
        elif kind in (b"eq.subscribe", b"eq.own"):
            subscription = link.confirmed(topic, is_own=kind == b"eq.own")
            self._wake()
            if subscription is not None and heard is not None:
                heard.confirm(subscription, push)
        elif heard is not None:
            heard.take(link, push)

    def on_up(self, link: LightLink) -> None:
        self._wake()

    def on_refused(self, subscription: LightSubscription) -> None:
        """A hub has no stream of its own to give: it was a home, and is none any more. Another one will tell."""
        heard = self._heard.get(subscription.topic)
        subscription.leave()
        if heard is not None:
            heard.merge.lost(subscription)
            self._rescue(heard)

    def on_lost(self, link: LightLink) -> None:
        """A connection was lost: go on elsewhere, or here again, after a moment."""
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
            heard = self._heard.get(subscription.topic)
            subscription.leave()
            if heard is not None:
                heard.merge.lost(subscription)
        self._loop.call_later(RETRY_S, self._recover)

    # Where topics live.

    def _found(self, topic: bytes, link: LightLink) -> None:
        """The reply to a message that asked: unless the hub has said otherwise, the topic lives there."""
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
        # A client that went elsewhere after a disconnect is led back by a route that it knew before.
        line = self._lines.get(topic)
        if line is not None:
            self._aim(topic, line, route.publish_at)
        heard = self._heard.get(topic)
        if heard is not None and (is_news or route.subscribe_at not in {link.hub for link in heard.links}):
            self._seat(heard, route)

    def _aim(self, topic: bytes, line: _Line, target: Endpoint) -> None:
        """Publish the topic there from now on."""
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
        """It is known where to publish: send what was held, and subscribe if that has waited for it."""
        assert line.hub is not None, "called once the hub is known"
        held, line.held = line.held, []
        link = self._link(line.hub)
        for request in held:
            link.ask(request)
        if topic in self._wanted:
            del self._wanted[topic]
            self._hear(topic)

    # Subscriptions.

    def _hear(self, topic: bytes) -> None:
        heard = self._heard[topic] = Hearing(topic, self.counts, self.receive)
        route, line = self._routes.get(topic), self._lines.get(topic)
        if route is not None:
            self._seat(heard, route)
        else:
            hub = line.hub if line is not None else None
            heard.merge.want([self._take(heard, hub or self._entry(), is_own=False)])

    def _seat(self, heard: Hearing, route: Route) -> None:
        """Take the topic where it lives."""
        if route.mode is not Mode.ALL_SUBSCRIBERS:
            assert route.subscribe_at is not None, "the hub has named it"
            heard.merge.want([self._take(heard, route.subscribe_at, is_own=False)])
            return
        merge, homes = heard.merge, route.homes
        spread = {subscription.link.hub for subscription in heard.wanted if subscription.is_own}
        if (spread and spread != set(homes)) or not any(merge.sources.values()):
            # First from one hub that names all streams: homes have changed, and may be others yet again. A hub that
            # brings its own streams goes on bringing each lane that began after it was asked.
            if spread or not merge.wanted:
                merge.want([self._take(heard, route.subscribe_at or homes[0], is_own=False)])
        elif merge.is_changing and not spread:
            # What is left over of the former homes has to be left first.
            self._loop.call_later(RESEAT_S, self._reseat, heard)
        else:
            merge.want([self._take(heard, home, is_own=True) for home in homes])

    def _reseat(self, heard: Hearing) -> None:
        route = self._routes.get(heard.topic)
        if route is not None and self._heard.get(heard.topic) is heard and not self._is_closed:
            self._seat(heard, route)

    def _take(self, heard: Hearing, hub: Endpoint, *, is_own: bool) -> LightSubscription:
        link = self._link(hub)
        is_known = heard.topic in link.subscriptions[is_own]
        subscription = link.subscription(heard.topic, is_own=is_own)
        if not is_known:
            # Behind its answer the hub says which streams there are; the answer to a ping says that it has.
            link.ask(_PING, lambda reply: self._greeted(subscription))
        return subscription

    def _greeted(self, subscription: LightSubscription) -> None:
        heard = self._heard.get(subscription.topic)
        if heard is not None and subscription.is_live and subscription in heard.merge.sources:
            heard.merge.greeted(subscription)
            route = self._routes.get(subscription.topic)
            if not subscription.is_own and route is not None:
                self._seat(heard, route)

    def _rescue(self, heard: Hearing) -> None:
        """Take a topic over any hub if nothing brings it any more."""
        if not heard.merge.wanted:
            heard.merge.want([self._take(heard, self._entry(), is_own=False)])

    def _recover(self) -> None:
        """Find another way for everything that a lost connection has left without one."""
        if self._is_closed:
            return
        for heard in self._heard.values():
            self._rescue(heard)
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
        """A hub to ask: one that there is a connection to, else any."""
        for hub in self._links:
            return hub
        return self._entries[int(self._rng.random() * len(self._entries))]

    def _used_links(self) -> Iterator[tuple[LightLink, bool]]:
        """Connections that stand, and whether topics are served there."""
        hubs = {link.hub for heard in self._heard.values() for link in heard.links}
        hubs.update(line.hub for line in self._lines.values() if line.hub is not None)
        return ((link, hub in hubs) for hub, link in self._links.items() if link.is_up)

    def _wake(self) -> None:
        """Connections or topics have changed."""
        if self._where is not None:
            self._where.finding.wake()

    def _tidy(self) -> None:
        """Close connections that are of no use any more."""
        in_use = {link for heard in self._heard.values() for link in heard.links}
        in_use |= {line.settling for line in self._lines.values() if line.settling is not None}
        now = self._loop.time()
        for hub, link in list(self._links.items()):
            if link not in in_use and now - link.used_at > IDLE_S and len(self._links) > 1:
                del self._links[hub]
                link.close()
