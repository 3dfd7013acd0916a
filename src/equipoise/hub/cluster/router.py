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

from equipoise.model import Placement, Plan

__all__ = ["HubFacts", "Router", "View"]


class HubFacts(msgspec.Struct, frozen=True, array_like=True):
    """What a hub says of itself in its `alive` node. Stored as an array: it grows only at the end."""

    incarnation: int
    host: str
    port: int
    # The version of the plan it found when it began; it serves under later ones.
    joined_version: int = 0


@dataclass(frozen=True)
class View:
    """A plan, and the hubs that are alive, read after it."""

    plan: Plan = field(default_factory=Plan)
    hubs: Mapping[str, HubFacts] = field(default_factory=dict)


class Router:
    """Owned by one cluster; changes through `apply`."""

    def __init__(self, name: str, incarnation: int) -> None:
        self.name = name
        self.incarnation = incarnation
        self.view = View()
        # The latest life of each hub that has been seen to end.
        self._dead: dict[str, int] = {}
        # Exactly the hubs that may be homes: members or not, alive, older than the plan.
        self._serving: frozenset[str] = frozenset()
        # Other hubs that are alive, serving or not, with their facts.
        self.peers: dict[str, HubFacts] = {}

    @property
    def version(self) -> int:
        return self.view.plan.version

    def apply(self, view: View) -> None:
        """Take a view. An older plan than the present one is left aside, its hubs are not."""
        for name, facts in self.peers.items():
            now = view.hubs.get(name)
            if now is None or now.incarnation != facts.incarnation:
                self._dead[name] = max(facts.incarnation, self._dead.get(name, 0))
        plan = view.plan if view.plan.version >= self.version else self.view.plan
        self.view = View(plan, view.hubs)
        self.peers = {
            name: facts
            for name, facts in view.hubs.items()
            if name != self.name and not self.is_dead(name, facts.incarnation)
        }
        serving = {name for name, facts in self.peers.items() if facts.joined_version < plan.version}
        own = view.hubs.get(self.name)
        if own is not None and own.incarnation == self.incarnation and own.joined_version < plan.version:
            serving.add(self.name)
        self._serving = frozenset(serving)

    def is_dead(self, hub: str, incarnation: int) -> bool:
        return incarnation <= self._dead.get(hub, 0)

    def is_live(self, hub: str) -> bool:
        return hub == self.name or hub in self.peers

    def home(self, topic: bytes) -> str | None:
        """The hub that a topic lives at; None while no member is alive."""
        homes = self.placement(topic).homes
        return homes[0] if homes else None

    def placement(self, topic: bytes) -> Placement:
        """All homes of a topic that are alive, the one it lives at first, and how they share it."""
        return self.view.plan.home_of(topic, self._serving)

    def address(self, hub: str) -> bytes | None:
        """Where clients reach a hub; None if it is not known."""
        facts = self.view.hubs.get(hub)
        if facts is None:
            return None
        host = f"[{facts.host}]" if ":" in facts.host else facts.host
        return f"{host}:{facts.port}".encode()

    def hub_at(self, address: bytes) -> str | None:
        """The hub that clients reach there; None if it is not known, or dead."""
        hubs = (self.name, *self.peers)
        return next((hub for hub in hubs if self.address(hub) == address), None)
