"""The failure detector: live hubs by the store's current and earlier state.

The store is right about every hub while this hub's own session lasts. If the session has expired, the store was
unreachable for a while, perhaps for all hubs: a missing hub may be about to return, as this hub does. Until these hubs
have had time to return, known hubs stay in the set.

A plan and the hubs after it are two reads, and a store may be far away. So the hubs are read together with each plan (a
glance), after it in the order of reads, which is all that routing needs: every hub that serves under the plan is then
included.

Always true:
    a hub serves under a plan exactly if its incarnation began before the plan was committed, by the order of creations
    in the store. So all hubs agree on it, and a reader that reads the plan first and the hubs after it gets every hub
    that serves under the plan;
    hubs are read after the plan that they are used with, after every known change (`outdate`), and not before the last
    read that was used. A glance for which this is not certain is discarded, and the hubs are read again.
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
        # The live hubs of the last conclusion.
        self._known: dict[str, LiveHub] = {}
        # The creation ids of their `alive` nodes.
        self._nodes: dict[str, int] = {}
        self._doubtful_until = 0.0

    def doubt(self, until: float) -> None:
        """This hub's session has expired: declare no hub dead before loop time `until`."""
        self._doubtful_until = until

    def doubtful_until(self, now: float) -> float | None:
        """The time of the next conclusion; None if the last one is final."""
        return self._doubtful_until if now < self._doubtful_until else None

    def has_witness(self, seen: Mapping[str, HubSeen]) -> bool:
        """Whether another hub has kept its session throughout, and so has seen which hubs were missing; or has started
        meanwhile, and serves in place of hubs that it does not know.
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
        """The live hubs. `plan_id`: the creation id of the plan, which was read before `seen`."""
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
    """Owned by one membership. One task calls `begin` and `keep` alternately, another calls `see`."""

    def __init__(self, hubs: HubsStore) -> None:
        self._hubs = hubs
        # Reads are numbered as they begin. Those up to `_outdated` are too old to be used.
        self._last = 0
        self._outdated = 0
        self._begun: tuple[int, HubLook] | None = None
        # The glance that was read with a plan, until it is used.
        self._kept: tuple[Plan, int, HubLook, Sequence[Answer]] | None = None

    def outdate(self) -> None:
        """Something has changed: reads that began before now may not include it."""
        self._outdated = self._last

    def begin(self, *, is_held: bool) -> Sequence[Read]:
        """The reads to do right after the next plan; none while this hub itself has no `alive` node."""
        self._begun = None
        if not is_held:
            return ()
        self._last += 1
        look = self._hubs.glance()
        self._begun = (self._last, look)
        return look.reads

    def keep(self, plan: Plan, answers: Sequence[Answer] | None) -> None:
        """This plan was read, with the answers to the last reads of `begin`; None: without."""
        begun, self._begun = self._begun, None
        self._kept = None if begun is None or answers is None else (plan, *begun, answers)

    async def see(self, plan: Plan) -> dict[str, HubSeen]:
        """All hubs, as of a time after this plan. Raises StoreError."""
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
