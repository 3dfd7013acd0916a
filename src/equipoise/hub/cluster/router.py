"""The current home of a topic: by the plan, without dead hubs.

The facts about hubs come from the store and are the same for all hubs, apart from the delay. A hub serves under plans
that are newer than its own start: a hub that returns under the same name serves nothing until the next plan assigns
topics to it. An incarnation that any hub has declared dead stays dead, even if its node reappears: it learns this when
it dials, and starts a new incarnation.

Incarnations are compared for equality only, because clocks may be wrong.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec
from xxhash import xxh3_64_intdigest

from equipoise.hub.cluster.link.capabilities import VERBS
from equipoise.hub.cluster.link.frames import Life
from equipoise.model import Entry, Mode, Placement, Plan
from equipoise.model.plan import reshared

__all__ = ["LiveHub", "Router", "Routing", "SharesChange", "Stamp"]

# Number of dead incarnations that are kept, the latest ones: no frame about an older one is in flight any more.
DEAD_MAX = 1_000

# Modes in which the first home numbers and the others follow.
_RELAYED = (Mode.ALL_PUBLISHERS, Mode.CONTENT)

# Determines the homes of topics: the plan's version, and a digest of the incarnations that serve under it. With equal
# stamps, all topics have equal homes.
Stamp = tuple[int, int]


class LiveHub(msgspec.Struct, frozen=True):
    """The facts about a live hub that routing needs. The hub publishes them as `store.hubs.HubFacts`."""

    incarnation: int
    host: str
    port: int
    # The latest version of the plan that was committed before the hub's start; it serves under later ones.
    joined_version: int = 0
    # Announcement for hubs of releases before capabilities had names (`capabilities.VERBS`).
    verbs: int = VERBS
    # Its TLS address, host:port; empty: no TLS.
    tls_address: str = ""


class SharesChange(NamedTuple):
    """A change of routing in which only the shares of these topics changed; and the stamp before it."""

    before: Stamp
    topics: frozenset[bytes]


@dataclass(frozen=True)
class Routing:
    """A plan, and the live hubs, which were read after it."""

    plan: Plan = field(default_factory=Plan)
    hubs: Mapping[str, LiveHub] = field(default_factory=dict)


class Router:
    """Owned by one cluster; changes through `apply` and `declare_dead`."""

    def __init__(self, name: str, incarnation: int) -> None:
        self.name = name
        self.incarnation = incarnation
        self.routing = Routing()
        # Version of the plan.
        self.version = 0
        # Incarnations that a hub has declared dead, the latest last.
        self.dead: dict[Life, None] = {}
        # Exactly the hubs that may be homes: alive and started before the plan, whether members or not.
        self._serving: frozenset[str] = frozenset()
        # Other hubs that are alive, serving or not, with their facts.
        self.peers: dict[str, LiveHub] = {}
        self.stamp: Stamp = (0, 0)
        # The plan's entries with several homes.
        self.replicated: tuple[Entry, ...] = ()
        # None: the last change of routing was not only of shares.
        self.reshared: SharesChange | None = None

    @property
    def serving(self) -> frozenset[str]:
        """The hubs that may be homes."""
        return self._serving

    def apply(self, routing: Routing) -> list[Life]:
        """Apply a routing; return the incarnations that end by it. An older plan is ignored, its set of hubs is not."""
        before, plan_before, peers_before = self.stamp, self.routing.plan, self.peers
        ended: list[Life] = []
        for name, facts in self.peers.items():
            now = routing.hubs.get(name)
            if now is None or now.incarnation != facts.incarnation:
                ended.append((name, facts.incarnation))
        plan = self.routing.plan
        if routing.plan.version >= self.version:
            plan = routing.plan
            self.version, self.replicated = plan.version, plan.replicated
        self.routing = Routing(plan, routing.hubs)
        for life in ended:
            self._remember(life)
        self._conclude()
        is_same_world = before[1] == self.stamp[1] and peers_before == self.peers
        topics = reshared(plan_before, plan) if is_same_world and before[0] < self.version else None
        self.reshared = None if topics is None else SharesChange(before, topics)
        return ended

    def declare_dead(self, life: Life) -> bool:
        """Another hub reports that the incarnation has ended; return whether this hub did not know it."""
        if life in self.dead:
            return False
        self._remember(life)
        self._conclude()
        self.reshared = None
        return True

    def is_dead(self, hub: str, incarnation: int) -> bool:
        return (hub, incarnation) in self.dead

    def is_live(self, hub: str) -> bool:
        return hub == self.name or hub in self.peers

    def placement(self, topic: bytes) -> Placement:
        """The mode of a topic and its live homes, the trunk's first; no homes while no member is alive."""
        return self.routing.plan.home_of(topic, self._serving)

    def home(self, topic: bytes) -> str | None:
        """The home of a topic's trunk; None while no member is alive."""
        homes = self.placement(topic).homes
        return homes[0] if homes else None

    def lanes(self) -> dict[bytes, tuple[str, ...]]:
        """By topic, the hubs that have a lane of it.

        Independent of whether the first home is alive: lanes begin and end with plans, or end with their hubs.
        """
        return {
            entry.topic: tuple(hub for hub in entry.homes[1:] if hub in self._serving)
            for entry in self.replicated
            if entry.mode is Mode.ALL_SUBSCRIBERS
        }

    def address(self, hub: str, *, is_tls: bool = False) -> bytes | None:
        """The address at which clients reach a hub, with TLS or without; None if it is unknown, or there is none."""
        facts = self.routing.hubs.get(hub)
        if facts is None:
            return None
        if is_tls:
            return facts.tls_address.encode() or None
        host = f"[{facts.host}]" if ":" in facts.host else facts.host
        return f"{host}:{facts.port}".encode()

    def own_address(self, *, is_tls: bool) -> bytes | None:
        return self.address(self.name, is_tls=is_tls)

    def hub_at(self, address: bytes) -> str | None:
        """The hub with this client address; None if it is unknown or dead."""
        hubs = (self.name, *self.peers)
        return next(
            (hub for hub in hubs if address in (self.address(hub), self.address(hub, is_tls=True))), None
        )

    @property
    def is_only_hub(self) -> bool:
        """Whether this is known to be the only hub; False while the hubs of the cluster are not known yet."""
        # Without any hub, this one included, no routing has been received yet.
        has_heard = bool(self.routing.hubs)
        others = any(member.hub != self.name for member in self.routing.plan.members[:2])
        return has_heard and not self.peers and not others

    def is_follower(self, topic: bytes) -> bool:
        """Whether this hub follows the topic's trunk without subscribers too: subscribers are redirected here."""
        placement = self.placement(topic)
        return placement.mode in _RELAYED and self.name in placement.homes[1:]

    def is_below_head(self, topic: bytes) -> bool:
        """Whether this hub is a home of a content topic, and follows another home along the topic's tree."""
        return self.is_content(topic) and self.name in self.placement(topic).homes[1:]

    def is_content(self, topic: bytes) -> bool:
        """Whether it is a content topic by the plan."""
        entry = self.routing.plan.entries.get(topic)
        return entry is not None and entry.mode is Mode.CONTENT

    def _remember(self, life: Life) -> None:
        self.dead[life] = None
        if len(self.dead) > DEAD_MAX:
            del self.dead[next(iter(self.dead))]

    def _conclude(self) -> None:
        hubs, version = self.routing.hubs, self.version
        self.peers = {
            name: facts
            for name, facts in hubs.items()
            if name != self.name and not self.is_dead(name, facts.incarnation)
        }
        serving = {
            name: facts.incarnation for name, facts in self.peers.items() if facts.joined_version < version
        }
        own = hubs.get(self.name)
        if own is not None and own.incarnation == self.incarnation and own.joined_version < version:
            serving[self.name] = own.incarnation
        self._serving = frozenset(serving)
        text = "\0".join(f"{name}\0{serving[name]}" for name in sorted(serving))
        # Shifted to fit the range of a frame's numbers.
        self.stamp = (version, xxh3_64_intdigest(text.encode()) >> 2)
