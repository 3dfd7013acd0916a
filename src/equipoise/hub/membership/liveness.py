"""Decide who is alive, from what the store shows and what it showed before. Pure.

The store is right about everybody while this hub's own session lasts. If that has ended, the store was out of reach
for a while, perhaps for all: whoever is missing then may be about to come back, as this hub does. Until they have had
the time for it, hubs that were known stay.

Always true: a hub counts as serving under a plan exactly if its life began before the plan was committed, and that is
read from the order of creations in the store. So all hubs agree on it, and whoever reads the plan first and the hubs
after it sees every hub that serves under the plan.
"""

from __future__ import annotations

from collections.abc import Mapping

from equipoise.hub.cluster.router import LiveHub
from equipoise.model import Plan
from equipoise.store.records.hubs import HubSeen

__all__ = ["Sight"]


class Sight:
    """Owned by one membership."""

    def __init__(self, name: str) -> None:
        self._name = name
        # Who was concluded to be alive, last time.
        self._known: dict[str, LiveHub] = {}
        # The creation ids of their nodes.
        self._nodes: dict[str, int] = {}
        self._doubtful_until = 0.0

    def doubt(self, until: float) -> None:
        """This hub's session has ended: bury nobody before loop time `until`."""
        self._doubtful_until = until

    def doubtful_until(self, now: float) -> float | None:
        """When to look again at who is alive; None if what was concluded holds."""
        return self._doubtful_until if now < self._doubtful_until else None

    def has_witness(self, seen: Mapping[str, HubSeen]) -> bool:
        """Whether another hub has kept its session all the while: it knows who was missing."""
        return any(
            hub.alive is not None and name != self._name and self._nodes.get(name) == hub.created_id
            for name, hub in seen.items()
        )

    def conclude(
        self, seen: Mapping[str, HubSeen], plan: Plan, plan_id: int, *, now: float
    ) -> dict[str, LiveHub]:
        """The hubs that are alive. `plan_id` is the creation id of the plan, which was read before them."""
        alive = {
            name: _live(hub, plan, plan_id) for name, hub in sorted(seen.items()) if hub.alive is not None
        }
        nodes = {name: seen[name].created_id for name in alive}
        if now < self._doubtful_until:
            for name, hub in self._known.items():
                if name not in alive:
                    alive[name] = hub
                    nodes[name] = self._nodes[name]
        self._known, self._nodes = alive, nodes
        return alive


def _live(hub: HubSeen, plan: Plan, plan_id: int) -> LiveHub:
    host, _, port = hub.facts.address.rpartition(":")
    joined_version = plan.version - 1 if hub.serves_under(plan.version, plan_id) else plan.version
    return LiveHub(
        hub.facts.incarnation,
        host.strip("[]"),
        int(port),
        joined_version,
        hub.facts.verbs,
        hub.facts.tls_address,
    )
