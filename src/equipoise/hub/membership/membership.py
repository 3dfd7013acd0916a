"""Membership of a hub: a session with the store, and the changes that follow from it.

    registration    hold the `alive` node, and report the hub's load
    plan            follow the plan; large plans are decoded in another thread
    hubs            follow the set of live hubs
    route           apply plan and hubs to the cluster, and enter the plan if necessary
    users           follow the access rules; a plan that needs newer ones waits for them
    specs           follow the specs; a plan that needs newer ones waits for them
    orders          read the publisher orders that the plan names
    giving          spread logs over hubs if no controller does
    ended           declare hubs of this machine dead whose process has ended
    partition       leave, if the other hubs reach each other but not this hub

Always true:
    the hub is announced before it reads the first plan that it serves under, and the hubs are read after the plan;
    plans are applied in order of their versions;
    without the store, the hub continues with the last plan and the last set of hubs.

Each task is restarted by itself after a failure of the store.
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

# Seconds without a plan, or without the store, after which the hub reports a problem.
PATIENCE_S = 5.0
HEALTH_INTERVAL_S = 1.0


class Membership:
    """Owned by the process of the hub. Create it once the hub has started; `run` it until the hub has to leave."""

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
        """`access_version`: the version of the users that the hub was started with (`acl_sync.first_rules`).

        `process`: the identity of this process. `is_gone`: whether another process has certainly ended.
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
        self._liveness = FailureDetector(self._name)
        self._guard = RegionGuard(
            store,
            tree,
            self._plans,
            self,
            report=lambda problem: hub.core.health.report("store", problem),
            new_identity=lambda: f"{self._name}.{hub.core.incarnation:x}",
        )
        self._registration = HubRegistration(
            hub,
            store,
            self._hubs,
            self._liveness,
            process=process,
            check_region=self._guard.check,
            served_version=self._served_version,
            on_held=self._hubs_changed,
            load=load,
        )
        self._partition = Partition(hub, self._hubs, self._registration)
        self._ended = EndedHubs(hub, self._hubs, is_gone)
        self._giving = TopicGiving(
            hub, self._plans, self._leaders, self._hubs, specs=lambda: self._specs.stored.specs, load=load
        )
        hub.may_open_log, hub.on_log_rolled = self._giving.may_open, self._giving.rolled
        # The latest plan; None until it was read.
        self._plan: Plan | None = None
        self._must_route = asyncio.Event()
        # Time of the next routing without a change; None: none.
        self._look_at: float | None = None
        # Time since when the hub does not serve under the plan; None if it does.
        self._waiting_since: float | None = None
        # Set once the hub serves, or waits for a controller to add it to the plan.
        self.ready = asyncio.Event()
        hub.join_cluster(login)
        hub.on_renewed = self._registration.look_again
        hub.on_link_lost = self._ended.link_lost

    async def run(self) -> None:
        """Run until cancelled. Raises SettingsError if another live hub has this hub's name."""
        stop_listening = self._store.listen(self._registration.look_again)
        try:
            await self._begin()
            async with asyncio.TaskGroup() as group:
                for work in (
                    self._registration.stay,
                    self._follow_plan,
                    self._follow_hubs,
                    self._route,
                    self._rules.follow,
                    self._specs.follow,
                    self._orders.follow,
                    self._registration.announce_specs,
                    self._registration.renew_lease,
                    self._registration.prove_alive,
                    self._registration.report,
                    self._watch_health,
                    self._giving.work,
                    self._partition.watch,
                    self._ended.watch,
                ):
                    group.create_task(self._persist(work))
        finally:
            stop_listening()

    async def _watch_health(self) -> None:
        """Report when this hub has no plan, or cannot reach the store. Runs until it is cancelled."""
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
        while not self._registration.is_held():
            try:
                await self._registration.begin()
            except StoreError as problem:
                await self._pause(problem)

    async def _persist(self, work: Callable[[], Awaitable[None]]) -> None:
        """Run the work, and restart it whenever the store has failed."""
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

    # The region's state at this hub, for the guard.

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
        plans = self._plans.follow(self._plan, beside=self._reads_with_plan)
        async with aclosing(plans):
            async for plan, answers in plans:
                await offload(self._is_heavy(plan), _prepare, plan)
                self._plan = plan
                self._glances.keep(plan, answers)
                self._route_soon()

    def _reads_with_plan(self) -> Sequence[Read]:
        return self._glances.begin(is_held=self._registration.is_held())

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
            self._registration.specs_changed()

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
        if plan is None or not self._registration.is_held():
            return
        plan_id = await self._plans.created_id(plan.version) if plan.version else 0
        if plan_id is None:
            return  # The plan was trimmed: a later one will arrive.
        await self._rules.reach(plan.access_version)
        await self._specs.reach(plan.specs_version)
        seen = await self._glances.see(plan)
        if not self._registration.is_held():
            return
        own = seen.get(self._name)
        if own is None or own.alive is None or own.facts.incarnation != self._registration.incarnation:
            self._registration.give_up()
            return
        if await self._amends(plan, seen):
            return
        hubs = self._liveness.conclude(seen, plan, plan_id, now=self._now())
        cluster = self._hub.cluster
        assert cluster is not None, "it was joined when this was made"
        known = cluster.router.routing
        if known.plan is not plan or known.hubs != hubs:
            cluster.apply(Routing(plan, hubs))
            self._orders.applied(plan)
        self._look_at = self._liveness.doubtful_until(self._now())
        if own.serves_under(plan.version, plan_id) and self._name in plan.by_hub:
            self._waiting_since = None
            self.ready.set()
        else:
            await self._enter(plan)

    async def _amends(self, plan: Plan, seen: Mapping[str, HubSeen]) -> bool:
        """Amend a plan that assigns topics to hubs that cannot serve them; return whether another plan will arrive."""
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
            # The plan just committed, or another, will arrive.
            return
        self.ready.set()
        # If the controller stops without adding this hub, this hub adds itself.
        self._look_at = self._now() + settings.retry_interval_s

    def _now(self) -> float:
        return asyncio.get_running_loop().time()


def _prepare(plan: Plan) -> None:
    """Compute the cached properties that lookups need: the ring of a hundred members takes 40 ms to build."""
    _ = plan.ring, plan.by_hub, plan.replicated
