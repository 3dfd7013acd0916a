"""Hubs with the real membership and a real store on its own host.

The store is the in-memory store, served over the simulated network: hubs can be cut off from it, it can stop, and it
can lose its data. Hubs read the plan and the live hubs through their sessions only. An operator at the store commits
plans.

Always true: `plan` and `alive` are copies for observers; no hub reads them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import replace

import msgspec

from equipoise.access import Users
from equipoise.errors import PlanRaceError, StoreError
from equipoise.hub import Hub, HubSettings
from equipoise.hub.cluster import LiveHub
from equipoise.hub.membership.membership import Membership
from equipoise.hub.membership.settings import MembershipSettings
from equipoise.lab.scenarios import AclSync
from equipoise.lab.simulation.host import Host
from equipoise.lab.simulation.rules import HUBS_USER, users_of
from equipoise.lab.simulation.simulated_hub import PORT, SimulatedHub
from equipoise.lab.simulation.world import Simulation
from equipoise.model import Plan, PlanChange, TopicSpec, diff
from equipoise.model.change import ASKED_FOR
from equipoise.store import (
    HubsStore,
    MemoryStore,
    MemoryStoreServer,
    MemoryTree,
    PlanStore,
    RemoteMemoryStore,
    SpecsStore,
    StoreSettings,
    Tree,
    UsersStore,
    publish_users,
)

__all__ = ["STORE", "STORE_PORT", "TREE", "Region", "RegionHub", "membership_settings"]

STORE, STORE_PORT = "store", 2181
TREE = Tree()
# The session of a local observer of the store never expires.
BESIDE = StoreSettings(session_timeout_s=1e6)


class RegionHub(SimulatedHub):
    """A hub with its own session with the store. All fields are None until it has one."""

    membership: Membership | None = None
    store: RemoteMemoryStore | None = None
    # Runs the membership.
    work: asyncio.Task[None] | None = None

    @property
    def site(self) -> str:
        return self.settings.membership.site


class Region:
    """A store and its hubs. `begin` first."""

    def __init__(
        self,
        sim: Simulation,
        *,
        sessions: StoreSettings | None = None,
        retry_s: float = 0.1,
        place: str | None = None,
    ) -> None:
        """`sessions`: session settings of hubs and controllers. `retry_s`: delay between two attempts to connect."""
        self.sim = sim
        self.place = place
        self.plan = Plan()
        self.hubs: dict[str, RegionHub] = {}
        self.alive: dict[str, LiveHub] = {}
        self.tree = MemoryTree(sim.loop.time)
        self.host = sim.host(STORE, place=place)
        self._sessions = sessions or StoreSettings()
        self._retry_s = retry_s
        # Whether hubs can prove of each other that a process has ended, as on one machine.
        self.is_one_machine = False
        # Plans to commit, each with the members known at the time of the request.
        self._commits: asyncio.Queue[tuple[Plan, frozenset[str]]] = asyncio.Queue()
        # By version of the users, the rules that they were made from.
        self._rules: dict[str, AclSync] = {}

    def add(
        self,
        settings: HubSettings,
        *,
        host: Host | None = None,
        rules: AclSync | None = None,
        clock_error_s: Callable[[], float] | None = None,
    ) -> RegionHub:
        """Add a hub on this host, or on the host of the same name. The caller starts it."""
        name = settings.name
        membership = msgspec.structs.replace(
            settings.membership, store=f"eqs://{STORE}:{STORE_PORT}", advertise=f"{name}:{PORT}"
        )
        node = self.hubs[name] = RegionHub(
            host or self.sim.host(name),
            msgspec.structs.replace(settings, membership=membership),
            self.attend,
            rules=rules,
            clock_error_s=clock_error_s,
        )
        return node

    async def attend(self, node: SimulatedHub) -> None:
        """Runs on the hub's host: open a session, serve, and run the membership until cancelled."""
        assert isinstance(node, RegionHub)
        node.work = asyncio.current_task()
        store = node.store = await self.open()
        access_version = 0
        users = None
        while node.rules is not None and users is None:
            try:
                stored = await UsersStore(store, TREE).seed(users_of(node.rules))
                users, access_version = stored.users, stored.access_version
            except StoreError:
                await asyncio.sleep(self._retry_s)
        hub = await node.listen(users)
        if node.rules is not None:
            self._rules.setdefault(users_of(node.rules).version, node.rules)
            hub.reload_users = self._noted(node, hub.reload_users)  # type: ignore[method-assign, assignment]  # looks on
        login = None if node.rules is None else (HUBS_USER, HUBS_USER)
        clock = node.host.clock.time
        node.membership = Membership(
            hub,
            store,
            access_version=access_version,
            login=login,
            wall_clock=clock,
            load=lambda: self.load_of(hub),
            process=_process(node.host),
            is_gone=self._is_process_gone,
        )
        await self.equip(hub, store, node.host)
        await node.membership.run()

    def _is_process_gone(self, identity: str) -> bool:
        name, _, number = identity.partition("#")
        host = self.hubs[name].host if name in self.hubs else None
        is_running = host is None or (host.is_up and host.incarnation.number == int(number))
        return self.is_one_machine and not is_running

    def load_of(self, hub: Hub) -> float:
        """The load that the hub reports."""
        return 0.0

    async def equip(self, hub: Hub, store: RemoteMemoryStore, host: Host) -> None:
        """Add components to the hub before its membership starts. Worlds override this."""

    def _noted(self, node: SimulatedHub, reload: Callable[[Users], None]) -> Callable[[Users], None]:
        """Wrap `reload` to record when each version of the rules takes effect at the hub."""

        def reload_users(users: Users) -> None:
            reload(users)
            node.rules_at.append((self.sim.now, self._rules[users.version]))

        return reload_users

    async def retire(self, name: str) -> None:
        """Shut a hub down cleanly, as its process does: it hands over its topics, then its session ends."""
        await self.hubs[name].host.spawn(_retire(self.hubs[name]), name="retire")

    async def open(self) -> RemoteMemoryStore:
        """Open a session with the store over the network; retry until it succeeds."""
        while True:
            try:
                return await RemoteMemoryStore(STORE, STORE_PORT, self._sessions).open()
            except StoreError:
                await asyncio.sleep(self._retry_s)

    async def beside(self) -> MemoryStore:
        """Open a local session with the store, without a network in between."""
        return await MemoryStore(self.tree, BESIDE).open()

    # The store.

    def serve(self) -> None:
        """Start or restart the server of the store."""
        if not self.host.is_up:
            self.host.restart()
        self.host.spawn(MemoryStoreServer(self.tree, host="0.0.0.0", port=STORE_PORT).start(), name="store")

    def go_away(self) -> None:
        self.host.crash(silent=True)

    async def empty(self) -> None:
        """Replace the store by an empty one. The caller runs `work` again."""
        self.tree = MemoryTree(self.sim.loop.time)
        await self._look_on()

    # The operator.

    async def begin(self) -> None:
        self.serve()
        await self._look_on()

    async def put_specs(self, specs: Iterable[TopicSpec]) -> None:
        """Write topic specs to the store."""
        store = SpecsStore(self._store, TREE)
        for spec in specs:
            await store.put(spec)

    async def _look_on(self) -> None:
        self._store = await self.beside()
        self._plans = PlanStore(self._store, TREE, writer="operator", clock=lambda: 0.0)

    def work(self) -> tuple[Coroutine[object, object, None], ...]:
        """Coroutines that watch plans and hubs and commit requested plans. The caller runs them until cancelled."""
        return self._follow(), self._follow_hubs(), self._commit_all()

    def commit(self, plan: Plan) -> None:
        """Request a commit of the members and entries of this plan, plus hubs that join in the meantime."""
        self._commits.put_nowait((plan, frozenset(self.plan.by_hub)))

    def expire(self, name: str) -> None:
        """Nothing to do: sessions in a store expire without help."""

    async def change_rules(self, rules: AclSync) -> None:
        """Replace the users in the store, and notify hubs through the plan."""
        users = UsersStore(self._store, TREE)
        self._rules[users_of(rules).version] = rules
        stored = await users.load()
        await publish_users(users, self._plans, users_of(rules), access_version=stored.access_version)

    async def _follow(self) -> None:
        async for plan in self._plans.watch():
            self.plan = plan

    async def _follow_hubs(self) -> None:
        async for hubs in HubsStore(self._store, TREE).watch():
            self.alive = {
                name: LiveHub(seen.facts.incarnation, name, PORT)
                for name, seen in hubs.items()
                if seen.alive is not None
            }

    async def _commit_all(self) -> None:
        while True:
            await self._commit_one(*await self._commits.get())

    async def _commit_one(self, wanted: Plan, known: frozenset[str]) -> None:
        while True:
            base = await self._plans.load()
            joined = base.by_hub.keys() - known - wanted.by_hub.keys()
            members = (*wanted.members, *(m for m in base.members if m.hub in joined))
            change = diff(base, replace(wanted, members=tuple(sorted(members, key=lambda m: m.hub))))
            if change.is_empty:
                change = PlanChange.on(base, ASKED_FOR, set_members=base.members)
            try:
                self.plan = await self._plans.commit(change)
                return
            except PlanRaceError:
                continue

    # Seen from outside.

    def is_settled(self) -> bool:
        """Whether all hubs serve, know each other and have the same plan."""
        for node in self.hubs.values():
            cluster = node.cluster
            if cluster is None or cluster.router.version != self.plan.version:
                return False
            if cluster.router._serving != frozenset(self.hubs):
                return False
        return True


def _process(host: Host) -> str:
    """Identity of the current process on the host."""
    return f"{host.name}#{host.incarnation.number}"


async def _retire(node: RegionHub) -> None:
    if node.work is not None:
        node.work.cancel()
        await asyncio.wait([node.work])
    await node.stop()
    if node.store is not None:
        await node.store.close()
    node.membership = node.store = node.work = None


def membership_settings(session_s: float) -> MembershipSettings:
    """Membership settings of a hub in a world of a few seconds."""
    return MembershipSettings(session_timeout_s=session_s, load_report_interval_s=0.5, retry_interval_s=0.1)
