"""The failure detector: live hubs by the store's current and earlier state.

The store is right about every hub while this hub's own session lasts. If that has ended, the store was out of reach
for a while, perhaps for all: a hub that is missing then may be about to come back, as this hub does. Until they have
had the time for it, hubs that were known stay.

A plan and the hubs after it are two reads, and a store may be far away. So the hubs are asked for together with each
plan (a glance), behind it in the order of reads, which is all that routing needs: a hub that serves under the plan is
among them.

Always true:
    a hub counts as serving under a plan exactly if its life began before the plan was committed, and that is read from
    the order of creations in the store. So all hubs agree on it, and a reader that reads the plan first and the hubs
    after it sees every hub that serves under the plan;
    what is seen is read after the plan it is used with, after every change that is known (`outdate`), and not before
    what was seen last. A glance that cannot be shown to be is passed over, and the hubs are read anew.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from equipoise.hub.cluster.router import LiveHub
from equipoise.model import Plan
from equipoise.store.contract import Answer, Read
from equipoise.store.records.hubs import HubSeen, HubsStore
from equipoise.store.records.hubs_snapshot import HubLook

__all__ = ["FailureDetector", "HubLooks"]


class FailureDetector:
    """Owned by one membership."""

    def __init__(self, name: str) -> None:
        self._name = name
        # Who was concluded to be alive, last time.
        self._known: dict[str, LiveHub] = {}
        # The creation ids of their nodes.
        self._nodes: dict[str, int] = {}
        self._doubtful_until = 0.0

    def doubt(self, until: float) -> None:
        """This hub's session has ended: declare no hub dead before loop time `until`."""
        self._doubtful_until = until

    def doubtful_until(self, now: float) -> float | None:
        """When to look again at who is alive; None if what was concluded holds."""
        return self._doubtful_until if now < self._doubtful_until else None

    def has_witness(self, seen: Mapping[str, HubSeen]) -> bool:
        """Whether another hub has kept its session all the while, and knows who was missing; or has begun meanwhile,
        and serves in place of those that it does not know.
        """
        return any(
            hub.alive is not None
            and name != self._name
            and (self._nodes.get(name) == hub.created_id or not self._has_met(name, hub))
            for name, hub in seen.items()
        )

    def _has_met(self, name: str, hub: HubSeen) -> bool:
        known = self._known.get(name)
        return known is not None and known.incarnation == hub.facts.incarnation

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


class HubLooks:
    """Owned by one membership, whose `begin` and `keep` come in turn from one task, `see` from another."""

    def __init__(self, hubs: HubsStore) -> None:
        self._hubs = hubs
        # Looks are numbered as they begin. Those up to `_outdated` are too old to be used.
        self._last = 0
        self._outdated = 0
        self._begun: tuple[int, HubLook] | None = None
        # The glance that came with a plan, until it is used.
        self._kept: tuple[Plan, int, HubLook, Sequence[Answer]] | None = None

    def outdate(self) -> None:
        """Something has changed: what was asked until now may not show it."""
        self._outdated = self._last

    def begin(self, *, is_held: bool) -> Sequence[Read]:
        """What is to be read right after the next plan: nothing while this hub is not alive in the store itself."""
        self._begun = None
        if not is_held:
            return ()
        self._last += 1
        look = self._hubs.glance()
        self._begun = (self._last, look)
        return look.reads

    def keep(self, plan: Plan, answers: Sequence[Answer] | None) -> None:
        """This plan has come, with these answers to what `begin` asked last; None: by itself."""
        begun, self._begun = self._begun, None
        self._kept = None if begun is None or answers is None else (plan, *begun, answers)

    async def see(self, plan: Plan) -> dict[str, HubSeen]:
        """All hubs, as they were after this plan. Raises StoreError."""
        kept, self._kept = self._kept, None
        if kept is not None and kept[0] is plan and kept[1] > self._outdated:
            _, number, look, answers = kept
            seen = await self._hubs.conclude(look, answers)
        else:
            self._last += 1
            number = self._last
            seen = await self._hubs.load()
        self._outdated = max(self._outdated, number)
        return seen
