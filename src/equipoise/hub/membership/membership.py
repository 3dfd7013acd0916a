"""Keep a hub among the others: a session with the store, and everything that follows from what is read there.

    announce    hold `alive`; in every session anew, and in every life of the hub
    plan        follow it; large ones are decoded beside the loop
    hubs        follow who comes and goes
    route       apply plan and hubs to the cluster, and enter the plan if need be
    users       follow the access rules; a plan that needs newer ones waits for them
    specs       follow what topics need
    load        tell how busy the hub is

Always true:
    the hub is announced before it reads the plan it first serves under, and the hubs are read after the plan;
    plans are applied in order, none backwards;
    what cannot be asked changes nothing: without the store the hub goes on with the last plan and the last hubs.

Each piece of work goes on by itself after the store has failed. Whether a life of the hub is over is the cluster's to
say, but for one case: the session has ended and somebody has seen it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import TYPE_CHECKING

from equipoise.errors import ClosedError, NodeExistsError, NoNodeError, SettingsError, StoreError
from equipoise.hub.cluster.router import Routing
from equipoise.hub.membership.joining import enter
from equipoise.hub.membership.rules import Rules
from equipoise.hub.membership.settings import Join
from equipoise.hub.membership.sight import Sight
from equipoise.model import Member, Plan, Specs, quantise_weight
from equipoise.store.contract import SessionState, Store
from equipoise.store.hubs import HubFacts, HubsStore
from equipoise.store.leader import LeaderStore
from equipoise.store.offloading import HEAVY_ENTRIES, offload
from equipoise.store.plans import PlanStore
from equipoise.store.specs import SpecsStore
from equipoise.store.tree import Tree

if TYPE_CHECKING:
    from equipoise.hub.cluster.dialer import Login
    from equipoise.hub.server import Hub

__all__ = ["Membership"]

log = logging.getLogger("equipoise.hub")

# Sessions for which nobody is buried after this hub has lost its own: one in which the nodes of the others may still
# go, and one in which they make them again.
_DOUBT_SESSIONS = 2
# Sessions to wait for a process of the same name to end; after kill −9 it is one, and a tick of the store.
_PATIENCE_SESSIONS = 3
# A load that has changed by less is not worth a write.
_LOAD_STEP = 0.01


class Membership:
    """Owned by whoever runs the hub. Make it once the hub has started; `run` it until the hub is to leave."""

    def __init__(
        self,
        hub: Hub,
        store: Store,
        *,
        access_version: int = 0,
        login: Login = None,
        wall_clock: Callable[[], float] = time.time,
        load: Callable[[], float] = lambda: 0.0,
    ) -> None:
        """`access_version` is that of the users the hub was started with (`rules.first_rules`)."""
        self._hub = hub
        self._store = store
        self._settings = settings = hub.settings.membership
        tree = Tree(settings.region)
        self._name = hub.settings.name
        self._address = settings.advertise or f"{hub.settings.host}:{hub.port}"
        self._hubs = HubsStore(store, tree)
        self._leaders = LeaderStore(store, tree)
        self._specs = SpecsStore(store, tree)
        self._plans = PlanStore(store, tree, writer=f"hub {self._name}", clock=wall_clock)
        self._rules = Rules(store, tree, hub.reload_users, access_version=access_version)
        self._sight = Sight(self._name)
        self._load = load
        # The latest plan there is; None until it was asked for.
        self._plan: Plan | None = None
        # The session and the life that the hub is announced in; None if it is in none.
        self._held: tuple[int, int] | None = None
        # The life that `_since_id` belongs to, and the creation id of its first node; 0 before it.
        self._life = 0
        self._since_id = 0
        self._told_load = 0.0
        self._must_announce = asyncio.Event()
        self._must_route = asyncio.Event()
        # When to route again though nothing has changed, if ever.
        self._look_at: float | None = None
        # Set once the hub has its place: it serves, or has left it to others to say when.
        self.ready = asyncio.Event()
        # What topics need.
        self.specs = Specs()
        hub.join_cluster(login)
        hub.on_renewed = self._renewed

    async def run(self) -> None:
        """Take part until cancelled. Raises SettingsError if the hub's name is another's."""
        stop_listening = self._store.listen(self._session_changed)
        try:
            await self._announce_first()
            async with asyncio.TaskGroup() as group:
                for work in (
                    self._stay_announced,
                    self._follow_plan,
                    self._follow_hubs,
                    self._route,
                    self._rules.follow,
                    self._follow_specs,
                    self._report_load,
                ):
                    group.create_task(self._persist(work))
        finally:
            stop_listening()

    async def _persist(self, work: Callable[[], Awaitable[None]]) -> None:
        """Begin the work again whenever the store has failed."""
        while True:
            try:
                await work()
            except ClosedError:
                return
            except StoreError as problem:
                log.warning("hub %s, with the store: %s", self._name, problem)
                await asyncio.sleep(self._settings.retry_s)

    # Being alive.

    async def _announce_first(self) -> None:
        try:
            await self._announce()
        except NodeExistsError as problem:
            other = await self._hubs.look(self._name)
            where = f" at {other.facts.address}" if other is not None else ""
            raise SettingsError(
                f"another hub called {self._name} is alive{where}: give this one another --name, or stop that one"
            ) from problem

    async def _stay_announced(self) -> None:
        while True:
            self._must_announce.clear()
            if self._store.session and self._held != self._present:
                await self._announce()
            await self._must_announce.wait()

    @property
    def _present(self) -> tuple[int, int]:
        return self._store.session, self._hub.core.incarnation

    async def _announce(self) -> None:
        """Hold `alive` in the present session and life."""
        settings = self._settings
        if self._life == self._hub.core.incarnation:
            # The same life in another session. The store was away, or this hub was.
            self._sight.doubt(self._now() + _DOUBT_SESSIONS * settings.session_timeout_s)
            if await self._is_missed():
                self._hub.renew()
        present = self._present
        if self._life != present[1]:
            self._life, self._since_id = present[1], 0
        node = await self._hubs.announce(
            self._facts,
            load_ratio=self._told_load,
            since_id=self._since_id,
            patience_s=_PATIENCE_SESSIONS * settings.session_timeout_s,
        )
        if self._life == present[1]:
            self._since_id = self._since_id or node.created_id
            self._held = present
        # Either may have changed meanwhile; whoever looks finds out.
        self._must_announce.set()
        self._must_route.set()

    async def _is_missed(self) -> bool:
        """Whether the last session has ended before this one took its place, and another hub has seen that."""
        seen = await self._hubs.load()
        own = seen.get(self._name)
        if own is not None and own.alive is not None and own.facts.incarnation == self._life:
            return False
        return self._sight.has_witness(seen)

    @property
    def _facts(self) -> HubFacts:
        settings = self._settings
        return HubFacts(
            hub=self._name,
            address=self._address,
            incarnation=self._life,
            site=settings.site,
            rack=settings.rack,
        )

    def _session_changed(self, state: SessionState) -> None:
        self._must_announce.set()

    def _renewed(self) -> None:
        """The hub has begun another life, without a plan."""
        self._must_announce.set()

    async def _report_load(self) -> None:
        while True:
            await asyncio.sleep(self._settings.load_report_s)
            load_ratio = self._load()
            if self._held != self._present or abs(load_ratio - self._told_load) < _LOAD_STEP:
                continue
            try:
                await self._hubs.report(self._facts, load_ratio=load_ratio, since_id=self._since_id)
            except NoNodeError:
                self._announce_again()
            else:
                self._told_load = load_ratio

    def _announce_again(self) -> None:
        """Our node is not there, though nobody has said that the session has ended."""
        self._held = None
        self._must_announce.set()

    # Following.

    async def _follow_plan(self) -> None:
        async for plan in self._plans.watch(self._plan):
            await offload(self._is_heavy(plan), _prepare, plan)
            self._plan = plan
            self._must_route.set()

    def _is_heavy(self, plan: Plan) -> bool:
        has_other_members = self._plan is None or plan.members != self._plan.members
        return has_other_members or len(plan.entries) > HEAVY_ENTRIES

    async def _follow_hubs(self) -> None:
        async with aclosing(self._hubs.changes()) as changes:
            async for _ in changes:
                self._must_route.set()

    async def _follow_specs(self) -> None:
        async with aclosing(self._specs.watch()) as changes:
            async for specs in changes:
                self.specs = specs

    # Routing.

    async def _route(self) -> None:
        while True:
            try:
                async with asyncio.timeout_at(self._look_at):
                    await self._must_route.wait()
            except TimeoutError:
                pass
            self._must_route.clear()
            self._look_at = None
            try:
                await self._route_once()
            except StoreError:
                self._must_route.set()
                raise

    async def _route_once(self) -> None:
        plan = self._plan
        if plan is None or self._held != self._present:
            return
        plan_id = await self._plans.created_id(plan.version) if plan.version else 0
        if plan_id is None:
            return  # Trimmed away by now: a later plan is on its way here.
        await self._rules.reach(plan.access_version)
        seen = await self._hubs.load()
        if self._held != self._present:
            return
        own = seen.get(self._name)
        if own is None or own.alive is None or own.facts.incarnation != self._life:
            self._announce_again()
            return
        hubs = self._sight.conclude(seen, plan, plan_id, now=self._now())
        cluster = self._hub.core.cluster
        assert cluster is not None, "it was joined when this was made"
        cluster.apply(Routing(plan, hubs))
        self._look_at = self._sight.doubtful_until(self._now())
        if own.since_id < plan_id and self._name in plan.by_hub:
            self.ready.set()
        else:
            await self._enter(plan)

    async def _enter(self, plan: Plan) -> None:
        settings = self._settings
        if settings.join is Join.AUTO:
            weight = quantise_weight(settings.weight) if settings.weight > 0 else 0
            member = Member(self._name, weight, settings.site)
            access_version = self._rules.access_version
            if await enter(self._plans, self._leaders, plan, member, access_version=access_version):
                # The plan just committed, or another, is on its way here.
                return
        self.ready.set()
        # Should the controller go without a word about this hub, it is this hub's turn.
        self._look_at = self._now() + settings.retry_s

    def _now(self) -> float:
        return asyncio.get_running_loop().time()


def _prepare(plan: Plan) -> None:
    """Work out what everybody asks of a plan: a ring of a hundred members takes 40 ms to build."""
    _ = plan.ring, plan.by_hub, plan.replicated
