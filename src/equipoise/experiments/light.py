"""A light smart client: the real protocol, none of the comforts.

Thousands of them fit into one simulation. It speaks RESP3 with positions, goes where hubs tell it that a topic lives
(`eq.home`), waits for what it is owed before it publishes elsewhere (EQ.SETTLE), subscribes at the new home before it
leaves the old one, merges by position and counts what is missing. It keeps no queues: each message is handed to a
function as it comes.

Where a topic lives is found out by publishing to it: a hub where it does not live passes the message on and says where
it does, ahead of its reply. Only a client that never publishes subscribes wherever it is first.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from equipoise.client.codec import encode_publish, encode_request
from equipoise.experiments.light_link import LightLink
from equipoise.experiments.light_stream import Hearing
from equipoise.experiments.meter import Meter
from equipoise.model import Mode

__all__ = ["LightClient"]

# A connection that nothing was published on for so long, and nothing is heard on, is closed.
IDLE_S = 10.0
# Before a lost connection is made again.
RETRY_S = 1.0
_LINK_NAME_BYTES = 16

Receive = Callable[[bytes, bytes], None]


@dataclass(slots=True)
class _Route:
    """Where a topic is published to. `hub` is None until that is known."""

    hub: str | None = None
    version: int = -1
    homes: tuple[str, ...] = ()
    mode: Mode = Mode.SINGLE
    # The hub that has yet to say that all it was given has its position; meanwhile messages are held.
    settling: str | None = None
    held: list[bytes] = field(default_factory=list)


class LightClient:
    """One client on one host. All methods are called on that host."""

    def __init__(self, entries: Sequence[str], meter: Meter, receive: Receive, rng: Random) -> None:
        """`entries`: hubs to ask about topics that nothing is known of, as in the URL of a bus."""
        self.meter = meter
        self.receive = receive
        self._entries = list(entries)
        self._rng = rng
        self._loop = asyncio.get_running_loop()
        self._name = rng.randbytes(_LINK_NAME_BYTES).hex().encode()
        self._links: dict[str, LightLink] = {}
        self._routes: dict[bytes, _Route] = {}
        self._heard: dict[bytes, Hearing] = {}
        # Topics wanted whose home is being asked for.
        self._wanted: dict[bytes, None] = {}
        self._is_closed = False

    # What the program does.

    def subscribe(self, topic: bytes) -> None:
        """Hear a topic. If its home is being asked for by a message, from when that is known."""
        route = self._routes.get(topic)
        if route is not None and route.hub is None:
            self._wanted[topic] = None
        else:
            self._hear(topic)

    def unsubscribe(self, topic: bytes) -> None:
        self._wanted.pop(topic, None)
        heard = self._heard.pop(topic, None)
        if heard is not None:
            for link in heard.links:
                link.leave(topic)
        self._tidy()

    def is_live(self, topic: bytes) -> bool:
        """Whether a subscription stands."""
        heard = self._heard.get(topic)
        return heard is not None and heard.is_live

    def publish(self, topic: bytes, payload: bytes) -> None:
        request = encode_publish(topic, payload)
        route = self._routes.get(topic)
        if route is None:
            route = self._routes[topic] = _Route()
            link = self._link(self._entry())
            link.ask(request, lambda reply: self._found(topic, link))
        elif route.hub is None or route.settling is not None:
            route.held.append(request)
        else:
            link = self._link(route.hub)
            link.used_at = self._loop.time()
            link.ask(request)

    def close(self) -> None:
        self._is_closed = True
        for link in self._links.values():
            link.close()
        self._links.clear()

    # What hubs say.

    def on_push(self, link: LightLink, push: list[Any]) -> None:
        kind, topic = push[0], push[1]
        heard = self._heard.get(topic)
        if kind == b"eq.home":
            self._sent_home(topic, push[2], push[3], push[4:])
        elif kind == b"eq.settled":
            self._settled(topic, link)
        elif link.asked and not link.counts(kind, topic):
            return
        elif heard is not None:
            heard.take(link, kind, push)

    def on_lost(self, link: LightLink) -> None:
        """A connection was lost: go on elsewhere, or here again, after a moment."""
        if self._is_closed:
            return
        self.meter.cuts += 1
        if self._links.get(link.hub) is link:
            del self._links[link.hub]
        for route in self._routes.values():
            if link.hub in (route.hub, route.settling):
                route.hub, route.settling = None, None
        for heard in self._heard.values():
            heard.lose(link)
        self._loop.call_later(RETRY_S, self._recover)

    # Where topics live.

    def _found(self, topic: bytes, link: LightLink) -> None:
        """The reply to a message that asked: unless the hub has said otherwise, the topic lives there."""
        route = self._routes[topic]
        if route.hub is None:
            route.hub = link.hub
            self._resume(topic, route)

    def _sent_home(self, topic: bytes, version: int, mode: bytes, addresses: Sequence[bytes]) -> None:
        route = self._routes.setdefault(topic, _Route())
        if version < route.version:
            return
        homes = tuple(address.rpartition(b":")[0].decode() for address in addresses)
        route.version, route.homes, route.mode = version, homes, Mode(mode.decode())
        former = route.hub
        if former is None:
            route.hub = self._publish_to(route, former)
            self._resume(topic, route)
        elif former != (target := self._publish_to(route, former)):
            route.hub = target
            if route.settling is None and former in self._links:
                route.settling = former
                self._links[former].ask(encode_request(b"EQ.SETTLE", topic))
        heard = self._heard.get(topic)
        if heard is not None:
            heard.go_to(self._link(self._listen_at(route, heard)))

    def _publish_to(self, route: _Route, former: str | None) -> str:
        if route.mode is Mode.ALL_SUBSCRIBERS:
            return former if former in route.homes else self._draw(route.homes)
        return route.homes[0]

    def _listen_at(self, route: _Route, heard: Hearing | None) -> str:
        if route.mode is not Mode.ALL_PUBLISHERS:
            return route.homes[0]
        kept = [link.hub for link in heard.links if link.hub in route.homes] if heard is not None else []
        return kept[-1] if kept else self._draw(route.homes)

    def _settled(self, topic: bytes, link: LightLink) -> None:
        route = self._routes.get(topic)
        if route is not None and route.settling == link.hub:
            route.settling = None
            self._resume(topic, route)

    def _resume(self, topic: bytes, route: _Route) -> None:
        """It is known where to publish: send what was held, and subscribe if that has waited for it."""
        assert route.hub is not None, "called once the hub is known"
        held, route.held = route.held, []
        link = self._link(route.hub)
        for request in held:
            link.ask(request)
        if topic in self._wanted:
            del self._wanted[topic]
            self._hear(topic)

    # Subscriptions.

    def _hear(self, topic: bytes) -> None:
        route = self._routes.get(topic)
        if route is not None and route.homes:
            hub = self._listen_at(route, None)
        elif route is not None and route.hub is not None:
            hub = route.hub
        else:
            hub = self._entry()
        heard = self._heard[topic] = Hearing(topic, self.meter, self.receive)
        heard.go_to(self._link(hub))

    def _recover(self) -> None:
        """Find another way for everything that a lost connection has left without one."""
        if self._is_closed:
            return
        for heard in self._heard.values():
            if not heard.links:
                heard.go_to(self._link(self._entry()))
        for topic, route in self._routes.items():
            if route.hub is None:
                route.hub = self._entry()
                self._resume(topic, route)

    # Connections.

    def _link(self, hub: str) -> LightLink:
        link = self._links.get(hub)
        if link is None:
            link = self._links[hub] = LightLink(self, hub, self._name)
            link.used_at = self._loop.time()
            self._loop.create_task(link.dial())
        return link

    def _entry(self) -> str:
        """A hub to ask: one that there is a connection to, else any."""
        for hub in self._links:
            return hub
        return self._draw(self._entries)

    def _tidy(self) -> None:
        """Close connections that are of no use any more."""
        in_use = {link.hub for heard in self._heard.values() for link in heard.links}
        in_use |= {route.settling for route in self._routes.values() if route.settling is not None}
        now = self._loop.time()
        for hub, link in list(self._links.items()):
            if hub not in in_use and now - link.used_at > IDLE_S and len(self._links) > 1:
                del self._links[hub]
                link.close()

    def _draw(self, among: Sequence[str]) -> str:
        return among[int(self._rng.random() * len(among))]
