"""The homes of topics that this client has learned. Pure.

Hubs announce (topic, version, mode, homes). Versions are the plan's and never decrease: announcements of an older plan
are ignored, from any hub. The same version may have other homes, since a home may have died.

    single            publish and subscribe at the first home
    all-publishers    publish at the first, subscribe at one drawn at random
    content           publish at the first, or at the head that a hub has assigned (`eq.seat`); subscribe at one of the
                      others: the present one, else one drawn at random; by filter at the home that a hub has assigned
                      (`eq.edge`), else at the base if it is one of them
    all-subscribers   publish at one drawn at random, or at the one that a hub has assigned, subscribe at every home

A home is drawn by rendezvous hashing with a key of the client: the client keeps it while it is a home, unless a new
home has a higher hash, as it has for its share of the clients.

A topic without a route is served by the hub of the URL, which relays. The entry of an unused topic is dropped after a
while; relaying does not expire.

A topic with lanes is subscribed over several links, in stages: every home sends the streams that it numbers, so that no
hub has to send everything, and one link, the fallback, sends the rest: new lanes, and the trunk while it has no
reachable home.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from equipoise.client.url import Endpoint
from equipoise.client.wire.link_subscription import LinkSubscription
from equipoise.model import Mode

if TYPE_CHECKING:
    from equipoise.client.routing.channel import TopicChannel
    from equipoise.client.wire.link import Link

__all__ = []

HOMES_MAX = 64
"""As in a plan; more are invalid."""

# Modes with subscriptions at one home of several.
_RELAYED = (Mode.ALL_PUBLISHERS, Mode.CONTENT)

_MODES = {mode.encode(): mode for mode in Mode}


class Route:
    """One topic's entry. Owned by Routes."""

    __slots__ = ("homes", "mode", "publish_at", "seat", "subscribe_at", "used_at", "version")

    def __init__(self, used_at: float) -> None:
        self.version = -1
        self.mode = Mode.SINGLE
        self.homes: tuple[Endpoint, ...] = ()
        self.publish_at: Endpoint | None = None
        # The home that a hub has assigned, if any.
        self.seat: Endpoint | None = None
        self.subscribe_at: Endpoint | None = None
        self.used_at = used_at


class Routes:
    """Owned by one bus."""

    def __init__(self, routes_max: int, key: bytes) -> None:
        self._routes_max = routes_max
        # Two clients with the same key would draw the same homes.
        self._key = key
        self._routes: dict[bytes, Route] = {}

    def __len__(self) -> int:
        return len(self._routes)

    def __iter__(self) -> Iterator[bytes]:
        return iter(list(self._routes))

    def get(self, topic: bytes) -> Route | None:
        return self._routes.get(topic)

    def tell(self, topic: bytes, version: int, mode: object, homes: list[Endpoint], now: float) -> bool:
        """Apply a hub's announcement; whether it changes anything."""
        known = self._routes.get(topic)
        if not homes or len(homes) > HOMES_MAX or (known is not None and version < known.version):
            return False
        # An unknown mode of a later release is served by the first home, as every mode is.
        chosen, named = (
            _MODES.get(mode, Mode.SINGLE) if isinstance(mode, bytes) else Mode.SINGLE,
            tuple(homes),
        )
        route = known or self._add(topic, now)
        route.version = version
        if (route.mode, route.homes) == (chosen, named):
            return False
        route.mode, route.homes, route.used_at = chosen, named, now
        choices = named[1:] if chosen is Mode.CONTENT and len(named) > 1 else named
        drawn = max(choices, key=lambda home: self._rank(topic, home))
        if chosen is Mode.CONTENT and route.subscribe_at in choices:
            # Hubs that balance subscribers move them one by one: other changes are no reason to leave an edge.
            drawn = route.subscribe_at
        seat = route.seat if route.seat in named else drawn
        route.seat = None if chosen is Mode.CONTENT else route.seat
        route.publish_at = seat if chosen is Mode.ALL_SUBSCRIBERS else named[0]
        route.subscribe_at = named[0] if chosen is Mode.SINGLE else drawn
        return True

    def seat(self, topic: bytes, version: int, home: Endpoint) -> bool:
        """Apply a hub's assignment of the home where this client publishes; whether it changes anything.

        A home of a split topic; or a head of a content topic, which need not be among the homes that clients know.
        """
        route = self._routes.get(topic)
        if route is None or not (
            route.mode is Mode.CONTENT or (route.mode is Mode.ALL_SUBSCRIBERS and home in route.homes)
        ):
            return False
        if version < route.version or route.publish_at == home:
            return False
        route.seat = route.publish_at = home
        return True

    def may_be_edge(self, topic: bytes, version: int, home: Endpoint) -> bool:
        """Whether a hub with this version may assign a subscription by filter to the home."""
        route = self._routes.get(topic)
        if route is None or route.mode not in _RELAYED:
            return False
        return version >= route.version and home in route.homes

    def topics_at(self, endpoint: Endpoint) -> list[bytes]:
        """Topics for which the client uses this hub, or may."""
        return [
            topic
            for topic, route in self._routes.items()
            if endpoint in route.homes or endpoint == route.publish_at
        ]

    def leave(self, endpoint: Endpoint) -> None:
        """A hub is unreachable: topics published at this head are published at their home again."""
        for route in self._routes.values():
            if route.mode is Mode.CONTENT and route.publish_at == endpoint:
                route.seat, route.publish_at = None, route.homes[0]

    def expire(self, before: float, in_use: set[bytes]) -> list[bytes]:
        """Drop routes last used before a time and not in use; return their topics."""
        unused = [
            topic for topic, route in self._routes.items() if route.used_at < before and topic not in in_use
        ]
        for topic in unused:
            del self._routes[topic]
        return unused

    def _add(self, topic: bytes, now: float) -> Route:
        if len(self._routes) >= self._routes_max:
            del self._routes[next(iter(self._routes))]
        route = self._routes[topic] = Route(now)
        return route

    def _rank(self, topic: bytes, home: Endpoint) -> bytes:
        return hashlib.blake2b(b"%b %b" % (str(home).encode(), topic), key=self._key, digest_size=8).digest()


class SubscribeTarget(NamedTuple):
    """A link to subscribe over: to everything, or to some streams of the topic."""

    link: Link
    is_own: bool = False
    # Of some streams: all but these; None: those that the hub numbers.
    elsewhere: frozenset[bytes] | None = None


def next_targets(channel: TopicChannel, fallback: Link, homes: list[Link]) -> list[SubscribeTarget] | None:
    """The next link to subscribe over towards these homes; None: no further one, or not yet.

    `fallback` is the link that has the whole topic before it is spread.
    """
    merge = channel.merge
    wanted = [source for source in merge.wanted if isinstance(source, LinkSubscription)]
    whole = [source for source in wanted if not source.is_own]
    own = [source for source in wanted if source.is_own and source.elsewhere is None]
    if merge.is_changing:
        return None
    if not whole:
        rest = {source.table for source in wanted if source.elsewhere is not None}
        is_right = {source.table for source in own} == {home.subscriptions for home in homes} - rest
        return None if is_right else [SubscribeTarget(fallback)]
    others = [home for home in homes if home.subscriptions is not whole[0].table]
    link = next((link for link in (fallback, *homes) if link.subscriptions is whole[0].table), None)
    if link is None:
        # Whole at another link: the fallback comes first.
        return [SubscribeTarget(fallback)]
    spread = [SubscribeTarget(home, is_own=True) for home in others]
    if {source.table for source in own} != {home.subscriptions for home in others}:
        return [SubscribeTarget(link), *spread]
    if not others or not merge.is_caught_up(own):
        return None
    elsewhere = frozenset(merge.brought_by(set(own)))
    return [*spread, SubscribeTarget(link, is_own=True, elsewhere=elsewhere)]


def is_spread(channel: TopicChannel) -> bool:
    """Whether no change is left."""
    return not channel.merge.is_changing and all(source.is_own for source in channel.merge.wanted)
