"""What a controller knows from the store: the plan, the specs, the hubs. Kept up to date by one task each.

Goes on with the last it knew when the store is away.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import aclosing

from equipoise.model import Plan, Specs
from equipoise.store import HubSeen, HubsStore, PlanStore, SpecsStore, Store, Tree
from equipoise.view import HubView

__all__ = ["Knowledge", "hub_views"]


class Knowledge:
    """Run `run` as a task; wait for `is_complete` before deciding anything."""

    def __init__(self, store: Store, tree: Tree, plans: PlanStore) -> None:
        self._plans = plans
        self._hubs = HubsStore(store, tree)
        self._specs = SpecsStore(store, tree)
        self.plan = Plan()
        self.specs = Specs()
        self.hubs: Mapping[str, HubSeen] = {}
        # Set once everything has been read; and whenever hubs or specs change: `changed`.
        self.is_complete = asyncio.Event()
        self.changed = asyncio.Event()
        self._unread = {"plan", "specs", "hubs"}

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._follow_plan())
            group.create_task(self._follow_specs())
            group.create_task(self._follow_hubs())

    def committed(self, plan: Plan) -> None:
        """We have just made this one: no need to wait until we hear of it."""
        if plan.version > self.plan.version:
            self.plan = plan

    async def _follow_plan(self) -> None:
        async with aclosing(self._plans.watch()) as plans:
            async for plan in plans:
                self.committed(plan)
                self._read("plan")

    async def _follow_specs(self) -> None:
        async with aclosing(self._specs.watch()) as changes:
            async for specs in changes:
                self.specs = specs
                self._read("specs")

    async def _follow_hubs(self) -> None:
        async with aclosing(self._hubs.watch()) as changes:
            async for hubs in changes:
                self.hubs = hubs
                self._read("hubs")

    def _read(self, what: str) -> None:
        self._unread.discard(what)
        if not self._unread:
            self.is_complete.set()
        if what != "plan":
            self.changed.set()


def hub_views(
    hubs: Mapping[str, HubSeen], plan: Plan, *, releasable: set[str], releasing: str = ""
) -> list[HubView]:
    """The hubs that are alive, by what the store knows of them.

    A member without weight is being drained by an operator, unless the planner itself is emptying it.
    """
    views = []
    for name in sorted(hubs):
        seen = hubs[name]
        if seen.alive is None:
            continue
        member = plan.by_hub.get(name)
        views.append(
            HubView(
                name=name,
                site=seen.facts.site,
                rack=seen.facts.rack,
                incarnation=seen.facts.incarnation,
                is_draining=member is not None and member.weight == 0 and name != releasing,
                is_releasable=name in releasable,
            )
        )
    return views
