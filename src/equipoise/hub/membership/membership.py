"""Membership of a hub: a session with the store, and the changes that follow from it.

    presence    hold `alive`, and tell how busy the hub is
    plan        follow it; large ones are decoded beside the loop
    hubs        follow who comes and goes
    route       apply plan and hubs to the cluster, and enter the plan if need be
    users       follow the access rules; a plan that needs newer ones waits for them
    specs       follow them; a plan that needs newer ones waits for them
    orders      read those of publishers that the plan names
    giving      spread logs over hubs where no controller does
    ended       declare hubs of this machine dead whose process has ended
    partition   leave, if the others reach each other but not this hub

Always true:
    the hub is announced before it reads the plan it first serves under, and the hubs are read after the plan;
    plans are applied in order, none backwards;
    what cannot be asked changes nothing: without the store the hub goes on with the last plan and the last hubs.

Each piece of work goes on by itself after the store has failed.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING

from equipoise.access import Users
from equipoise.errors import ClosedError, PlanRaceError, StoreError
from equipoise.hub.cluster.router import Routing
from equipoise.hub.membership.able_hubs import without_unable_hubs
from equipoise.hub.membership.acl_sync import AclSync
from equipoise.hub.membership.ended_hubs import EndedHubs
from equipoise.hub.membership.join import enter
from equipoise.hub.membership.liveness import FailureDetector, HubLooks
from equipoise.hub.membership.order_sync import OrderSync
from equipoise.hub.membership.partition import Partition
from equipoise.hub.membership.region_guard import RegionGuard
from equipoise.hub.membership.registration import HubRegistration
from equipoise.hub.membership.settings import Join
from equipoise.hub.membership.spec_sync import SpecSync
from equipoise.hub.membership.topic_giving import TopicGiving
from equipoise.limits.seat_order import SeatOrder
from equipoise.model import Member, Plan, quantise_weight
from equipoise.store.contract import Read, SessionState, Store
from equipoise.store.executor import HEAVY_ENTRIES, offload
from equipoise.store.records.hubs import HubSeen, HubsStore
from equipoise.store.records.leader import LeaderStore
from equipoise.store.records.plans import PlanStore
from equipoise.store.records.specs import StoredSpecs
from equipoise.store.records.users import StoredUsers
from equipoise.store.tree import Tree

if TYPE_CHECKING:
    from equipoise.hub.cluster.link.dialer import Login
    from equipoise.hub.shell.server import Hub

__all__ = ["Membership"]

log = logging.getLogger("equipoise.hub")

# A hub that has had no plan, or no store, for this long says so.
PATIENCE_S = 5.0
HEALTH_INTERVAL_S = 1.0


class Membership:
    """Owned by the process of the hub. Make it once the hub has started; `run` it until the hub is to leave."""

    def __init__(
        self,
        hub: Hub,
        store: Store,
        *,
        access_version: int = 0,
        login: Login = None,
        wall_clock: Callable[[], float] = time.time,
        load: Callable[[], float] = lambda: 0.0,
        process: str = "",
        is_gone: Callable[[str], bool] = lambda process: False,
    ) -> None:
        """`access_version` is that of the users the hub was started with (`rules.first_rules`).

        `process` is the identity of this process. `is_gone` tells whether another one is known to have ended.
        """
        self._hub = hub
        self._store = store
        self._settings = settings = hub.settings.membership
        tree = Tree(settings.region)
        self._name = hub.settings.name
        self._hubs = HubsStore(store, tree, is_gone=is_gone)
        self._glances = HubLooks(self._hubs)
        self._leaders = LeaderStore(store, tree)
        self._plans = PlanStore(store, tree, writer=f"hub {self._name}", clock=wall_clock)
        self._rules = AclSync(store, tree, self._apply_users, access_version=access_version)
        self._specs = SpecSync(store, tree, self._apply_specs, lambda: self._guard.is_intact())
        self._orders = OrderSync(store, tree, self._name, self._apply_order)
        self._login = login
        self._sight = FailureDetector(self._name)
        self._guard = RegionGuard(
            store,
            tree,
            self._plans,
            self,
            report=lambda problem: hub.core.health.report("store", problem),
            new_identity=lambda: f"{self._name}.{hub.core.incarnation:x}",
        )
        self._presence = HubRegistration(
            hub,
            store,
            self._hubs,
            self._sight,
            process=process,
            check_region=self._guard.check,
            served_version=self._served_version,
            on_held=self._hubs_changed,
            load=load,
        )
        self._partition = Partition(hub, self._hubs, self._presence)
        self._ended = EndedHubs(hub, self._hubs, is_gone)
        self._giving = TopicGiving(
            hub, self._plans, self._leaders, self._hubs, specs=lambda: self._specs.stored.specs, load=load
        )
        hub.may_open_log, hub.on_log_rolled = self._giving.may_open, self._giving.rolled
        # The latest plan there is; None until it was asked for.
        self._plan: Plan | None = None
        self._must_route = asyncio.Event()
        # When to route again though nothing has changed, if ever.
        self._look_at: float | None = None
        # Since when the hub has had no place under the plan; None if it has one.
        self._waiting_since: float | None = None
        # Set once the hub has its place: it serves, or has left it to others to say when.
        self.ready = asyncio.Event()
        hub.join_cluster(login)
        hub.on_renewed = self._presence.look_again
        hub.on_link_lost = self._ended.link_lost

    async def run(self) -> None:
        """Take part until cancelled. Raises SettingsError if the hub's name is another's."""
        stop_listening = self._store.listen(self._presence.look_again)
        try:
            await self._begin()
            async with asyncio.TaskGroup() as group:
                for work in (
                    self._presence.stay,
                    self._follow_plan,
                    self._follow_hubs,
                    self._route,
                    self._rules.follow,
                    self._specs.follow,
                    self._orders.follow,
                    self._presence.announce_specs,
                    self._presence.renew_lease,
                    self._presence.prove_alive,
                    self._presence.report,
                    self._watch_health,
                    self._giving.work,
                    self._partition.watch,
                    self._ended.watch,
                ):
                    group.create_task(self._persist(work))
        finally:
            stop_listening()

    async def _watch_health(self) -> None:
        """Say so when this hub has no plan to serve under, or cannot reach the store, for ever."""
        health = self._hub.core.health
        without_plan_s = without_store_s = 0.0
        while True:
            await asyncio.sleep(HEALTH_INTERVAL_S)
            cluster = self._hub.cluster
            has_plan = cluster is not None and cluster.router.version > 0
            without_plan_s = 0.0 if has_plan else without_plan_s + HEALTH_INTERVAL_S
            is_connected = self._store.state is SessionState.CONNECTED
            without_store_s = 0.0 if is_connected else without_store_s + HEALTH_INTERVAL_S
            no_plan = "no plan yet: clients are rejected" if without_plan_s >= PATIENCE_S else ""
            health.report("plan", no_plan)
            no_store = "the store cannot be reached" if without_store_s >= PATIENCE_S else ""
            health.report("store session", no_store, is_grave=False)

    async def _begin(self) -> None:
        while not self._presence.is_held():
            try:
                await self._presence.begin()
            except StoreError as problem:
                await self._pause(problem)

    async def _persist(self, work: Callable[[], Awaitable[None]]) -> None:
        """Begin the work again whenever the store has failed."""
        while True:
            try:
                await work()
            except ClosedError:
                return
            except StoreError as problem:
                await self._pause(problem)

    async def _pause(self, problem: StoreError) -> None:
        log.warning("hub %s, with the store: %s", self._name, problem)
        await asyncio.sleep(self._settings.retry_interval_s)

    # What the hub knows of its region, for the guard.

    @property
    def known_plan(self) -> Plan | None:
        return self._plan

    @property
    def known_users(self) -> StoredUsers:
        return StoredUsers(self._hub.core.users, self._rules.access_version)

    @property
    def known_specs(self) -> StoredSpecs:
        return self._specs.stored

    def _served_version(self) -> int:
        cluster = self._hub.cluster
        return cluster.router.version if cluster is not None and self.ready.is_set() else 0

    # Following.

    async def _follow_plan(self) -> None:
        plans = self._plans.follow(self._plan, beside=self._look_beside)
        async with aclosing(plans):
            async for plan, answers in plans:
                await offload(self._is_heavy(plan), _prepare, plan)
                self._plan = plan
                self._glances.keep(plan, answers)
                self._route_soon()

    def _look_beside(self) -> Sequence[Read]:
        return self._glances.begin(is_held=self._presence.is_held())

    def _is_heavy(self, plan: Plan) -> bool:
        has_other_members = self._plan is None or plan.members != self._plan.members
        return has_other_members or len(plan.entries) > HEAVY_ENTRIES

    async def _follow_hubs(self) -> None:
        async with aclosing(self._hubs.changes()) as changes:
            async for _ in changes:
                self._hubs_changed()

    def _apply_specs(self, stored: StoredSpecs) -> None:
        self._hub.core.specs.follow(stored.specs, stored.version)
        self._hub.core.places.follow(stored.specs)
        logs = self._hub.core.logs
        if logs is not None and logs.durable is not None:
            logs.durable.follow(self._hub.core.index.topics.values())

        def done() -> None:
            self._hub.core.specs.enforced_version = stored.version
            self._presence.specs_changed()

        self._hub.core.cluster.limits.specs_changed(done)

    def _apply_order(self, topic: bytes, order: SeatOrder) -> None:
        cluster = self._hub.cluster
        assert cluster is not None, "it was joined when this was made"
        cluster.redirects.seats.ordered(topic, order)

    def _apply_users(self, users: Users) -> None:
        self._hub.reload_users(users)
        if self._login is None and not users.is_open:
            log.error(
                "hub %s has no login on other hubs, which now require one: restart it with --cluster-user",
                self._name,
            )

    # Routing.

    def _hubs_changed(self) -> None:
        self._glances.outdate()
        self._route_soon()

    def _route_soon(self) -> None:
        self._must_route.set()

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
                self._route_soon()
                raise

    async def _route_once(self) -> None:
        plan = self._plan
        if plan is None or not self._presence.is_held():
            return
        plan_id = await self._plans.created_id(plan.version) if plan.version else 0
        if plan_id is None:
            return  # Trimmed away by now: a later plan is on its way here.
        await self._rules.reach(plan.access_version)
        await self._specs.reach(plan.specs_version)
        seen = await self._glances.see(plan)
        if not self._presence.is_held():
            return
        own = seen.get(self._name)
        if own is None or own.alive is None or own.facts.incarnation != self._presence.life:
            self._presence.give_up()
            return
        if await self._amends(plan, seen):
            return
        hubs = self._sight.conclude(seen, plan, plan_id, now=self._now())
        cluster = self._hub.cluster
        assert cluster is not None, "it was joined when this was made"
        known = cluster.router.routing
        if known.plan is not plan or known.hubs != hubs:
            cluster.apply(Routing(plan, hubs))
            self._orders.applied(plan)
        self._look_at = self._sight.doubtful_until(self._now())
        if own.serves_under(plan.version, plan_id) and self._name in plan.by_hub:
            self._waiting_since = None
            self.ready.set()
        else:
            await self._enter(plan)

    async def _amends(self, plan: Plan, seen: Mapping[str, HubSeen]) -> bool:
        """Whether another plan is on its way here: this one gives topics to hubs that cannot carry them."""
        change = without_unable_hubs(plan, seen, self._specs.stored.specs)
        if change is None:
            return False
        log.warning("plan %d is amended: it assigns topics to hubs that do not support them", plan.version)
        try:
            await self._plans.commit(change)
        except PlanRaceError:
            pass
        return True

    async def _enter(self, plan: Plan) -> None:
        settings = self._settings
        if settings.join is Join.WAIT:
            self.ready.set()
            return
        weight = quantise_weight(settings.weight) if settings.weight > 0 else 0
        member = Member(self._name, weight, settings.site)
        now = self._now()
        self._waiting_since = now if self._waiting_since is None else self._waiting_since
        is_entered = await enter(
            self._plans,
            self._leaders,
            plan,
            member,
            access_version=self._rules.access_version,
            specs_version=self._specs.stored.version,
            is_patient=now - self._waiting_since < settings.join_timeout_s,
        )
        if is_entered:
            # The plan just committed, or another, is on its way here.
            return
        self.ready.set()
        # Should the controller go without a word about this hub, it is this hub's turn.
        self._look_at = self._now() + settings.retry_interval_s

    def _now(self) -> float:
        return asyncio.get_running_loop().time()


def _prepare(plan: Plan) -> None:
    """Work out what all lookups ask of a plan: a ring of a hundred members takes 40 ms to build."""
    _ = plan.ring, plan.by_hub, plan.replicated
