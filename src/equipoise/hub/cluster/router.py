"""Say which hub a topic lives at just now: the plan, and who is alive to carry it out.

What is known of hubs comes from the store and is the same for everybody but for the time it takes to get there. A
hub serves under plans that are newer than its own start: one that comes back, under the same name, takes nothing until
the next plan gives it something. A hub that was seen to vanish stays dead in this life of it, even if its node comes
back: it is told so when it calls, and starts a new life.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from equipoise.model import Entry, Mode, Placement, Plan

__all__ = ["HubFacts", "Router", "Routing"]


class HubFacts(msgspec.Struct, frozen=True, array_like=True):
    """What a hub says of itself in its `alive` node. Stored as an array: it grows only at the end."""

    incarnation: int
    host: str
    port: int
    # The version of the plan it found when it began; it serves under later ones.
    joined_version: int = 0


@dataclass(frozen=True)
class Routing:
    """A plan, and the hubs that are alive, read after it."""

    plan: Plan = field(default_factory=Plan)
    hubs: Mapping[str, HubFacts] = field(default_factory=dict)


class Router:
    """Owned by one cluster; changes through `apply`."""

    def __init__(self, name: str, incarnation: int) -> None:
        self.name = name
        self.incarnation = incarnation
        self.routing = Routing()
        # The latest life of each hub that has been seen to end.
        self._dead: dict[str, int] = {}
        # Exactly the hubs that may be homes: members or not, alive, older than the plan.
        self._serving: frozenset[str] = frozenset()
        # Other hubs that are alive, serving or not, with their facts.
        self.peers: dict[str, HubFacts] = {}
        # The plan's entries with several homes.
        self.replicated: tuple[Entry, ...] = ()

    @property
    def version(self) -> int:
        return self.routing.plan.version

    def apply(self, routing: Routing) -> None:
        """Take it. An older plan than the present one is left aside, its hubs are not."""
        for name, facts in self.peers.items():
            now = routing.hubs.get(name)
            if now is None or now.incarnation != facts.incarnation:
                self._dead[name] = max(facts.incarnation, self._dead.get(name, 0))
        plan = self.routing.plan
        if routing.plan.version >= self.version:
            plan = routing.plan
            self.replicated = tuple(entry for entry in plan.entries.values() if len(entry.homes) > 1)
        self.routing = Routing(plan, routing.hubs)
        self.peers = {
            name: facts
            for name, facts in routing.hubs.items()
            if name != self.name and not self.is_dead(name, facts.incarnation)
        }
        serving = {name for name, facts in self.peers.items() if facts.joined_version < plan.version}
        own = routing.hubs.get(self.name)
        if own is not None and own.incarnation == self.incarnation and own.joined_version < plan.version:
            serving.add(self.name)
        self._serving = frozenset(serving)

    def is_dead(self, hub: str, incarnation: int) -> bool:
        return incarnation <= self._dead.get(hub, 0)

    def is_live(self, hub: str) -> bool:
        return hub == self.name or hub in self.peers

    def placement(self, topic: bytes) -> Placement:
        """The mode of a topic and its homes that are alive; none while no member is. The trunk lives at the first."""
        return self.routing.plan.home_of(topic, self._serving)

    def home(self, topic: bytes) -> str | None:
        """The hub that a topic's trunk lives at; None while no member is alive."""
        homes = self.placement(topic).homes
        return homes[0] if homes else None

    def lanes(self) -> dict[bytes, tuple[str, ...]]:
        """By topic, the hubs that have a lane of it.

        Whether the first home is alive does not change that: lanes begin and end with plans, or die with their hubs.
        """
        return {
            entry.topic: tuple(hub for hub in entry.homes[1:] if hub in self._serving)
            for entry in self.replicated
            if entry.mode is Mode.ALL_SUBSCRIBERS
        }

    def is_follower(self, topic: bytes) -> bool:
        """Whether this hub follows the topic's trunk though nobody may listen here: subscribers are sent to it."""
        placement = self.placement(topic)
        return placement.mode is Mode.ALL_PUBLISHERS and self.name in placement.homes[1:]
