"""The worlds of `worlds`, with the real membership over a real store on a host of its own.

The store is the one in memory, served over the simulated network: hubs can be cut off from it, and it can be gone.
Nobody tells a hub anything: it finds out by its session. The operator's changes are committed like anybody's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random
from typing import cast

from equipoise.errors import PlanRaceError, StoreError
from equipoise.hub import Hub, HubSettings
from equipoise.hub.cluster import LiveHub
from equipoise.hub.membership.membership import Membership
from equipoise.hub.membership.settings import MembershipSettings
from equipoise.lab.scenarios import Client
from equipoise.lab.simulation import Simulation
from equipoise.lab.simulation.checkers import CHECKERS, Violation
from equipoise.lab.simulation.link import LinkSpec
from equipoise.lab.simulation.topology import Lan
from equipoise.lab.workload import Driven
from equipoise.model import Plan, PlanChange, diff
from equipoise.model.change import ASKED_FOR
from equipoise.store import (
    HubsStore,
    MemoryStore,
    MemoryStoreServer,
    MemoryTree,
    PlanStore,
    RemoteMemoryStore,
    StoreSettings,
    Tree,
)

from .worlds import CROWD, PORT, Directory, HubNode, Outcomes, Trouble, World, _gaps

STORE = "store"
STORE_PORT = 2181
SESSION_S = 1.0
TREE = Tree()
STORE_SETTINGS = StoreSettings(session_timeout_s=SESSION_S, request_timeout_s=SESSION_S)


@dataclass(frozen=True, kw_only=True)
class StoreTrouble(Trouble):
    """What can happen to the store, besides."""

    # A hub is cut off from it, for less than a session.
    store_cuts: tuple[int, int] = (0, 0)
    # Or for longer: the others bury it.
    store_losses: tuple[int, int] = (0, 0)
    # Its connections are reset.
    store_resets: tuple[int, int] = (0, 0)
    # It is gone for this long, for everybody; 0: it is not.
    outage_s: float = 0.0
    # Instead of the server, the network is gone: sessions end, and nobody sees it.
    is_outage_of_network: bool = False


class StoreNode(HubNode):
    """A host with a hub that takes part by itself."""

    def __init__(self, world: StoreWorld, name: str, *, host: str | None = None) -> None:
        super().__init__(world, name)
        if host is not None:
            self.host = world.sim.host(host)
        self.membership: Membership | None = None
        self.store: RemoteMemoryStore | None = None
        self._incarnations: set[int] = set()
        self._settings: HubSettings = replace_settings(self._settings, name)

    async def _serve(self) -> None:
        store = self.store = await self._open()
        hub = Hub(self._settings, wall_clock=self.host.clock.time, rng=self.host.random)
        await hub.start()
        self.hub = hub
        self.membership = Membership(hub, store, wall_clock=self.host.clock.time)
        self._incarnations.add(hub.core.incarnation)
        await self.membership.run()

    @property
    def lives(self) -> int:
        """How many this name has had."""
        if self.hub is not None:
            self._incarnations.add(self.hub.core.incarnation)
        return len(self._incarnations)

    async def _open(self) -> RemoteMemoryStore:
        while True:
            try:
                return await RemoteMemoryStore(STORE, STORE_PORT, STORE_SETTINGS).open()
            except StoreError:
                await asyncio.sleep(0.1)


def replace_settings(settings: HubSettings, name: str) -> HubSettings:
    own = MembershipSettings(
        store=f"eqs://{STORE}:{STORE_PORT}",
        advertise=f"{name}:{PORT}",
        session_timeout_s=SESSION_S,
        load_report_interval_s=0.5,
        retry_interval_s=0.1,
    )
    return HubSettings(
        name=settings.name,
        host=settings.host,
        port=settings.port,
        insecure=True,
        limits=settings.limits,
        cluster=settings.cluster,
        membership=own,
    )


class StoreDirectory(Directory):
    """What is in the store, seen from beside it, and the operator who changes it."""

    def __init__(self, world: StoreWorld) -> None:
        super().__init__(world)
        self.tree = MemoryTree(world.sim.loop.time)
        self._host = world.sim.host(STORE)
        self._commits: asyncio.Queue[Plan] = asyncio.Queue()

    async def begin(self) -> None:
        self.serve()
        self._store = await MemoryStore(self.tree, StoreSettings(session_timeout_s=1e6)).open()
        self._hubs = HubsStore(self._store, TREE)
        self._plans = PlanStore(self._store, TREE, writer="operator", clock=lambda: 0.0)
        self.attend()

    def attend(self) -> None:
        """Follow what is in the store, and commit what is asked for, until everything is healed."""
        for story in (self._follow(), self._follow_hubs(), self._commit_all()):
            self._world.keep(story)

    def serve(self) -> None:
        if not self._host.is_up:
            self._host.restart()
        self._host.spawn(MemoryStoreServer(self.tree, host="0.0.0.0", port=STORE_PORT).start(), name="store")

    def go_away(self) -> None:
        self._host.crash(silent=True)

    async def _follow(self) -> None:
        async for plan in self._plans.watch():
            self.plan = plan

    async def _follow_hubs(self) -> None:
        async for hubs in self._hubs.watch():
            self.alive = {
                name: LiveHub(seen.facts.incarnation, name, PORT)
                for name, seen in hubs.items()
                if seen.alive is not None
            }

    def commit(self, plan: Plan) -> None:
        self._commits.put_nowait(plan)

    async def _commit_all(self) -> None:
        while True:
            wanted = await self._commits.get()
            while True:
                base = await self._plans.load()
                # Whoever has joined meanwhile stays.
                known = {member.hub for member in wanted.members}
                members = (*wanted.members, *(m for m in base.members if m.hub not in known))
                change = diff(base, replace(wanted, members=tuple(sorted(members, key=lambda m: m.hub))))
                if change.is_empty:
                    change = PlanChange.on(base, ASKED_FOR, set_members=base.members)
                try:
                    self.plan = await self._plans.commit(change)
                    break
                except PlanRaceError:
                    continue

    def expire(self, name: str) -> None:
        """Sessions end by themselves here."""


class StoreWorld(World):
    """One run of one seed."""

    def __init__(
        self, sim: Simulation, trouble: StoreTrouble, clients: tuple[Client, ...], hubs: tuple[str, ...]
    ) -> None:
        super().__init__(sim, trouble, clients, ())
        self.store_trouble = trouble
        self.directory: StoreDirectory = StoreDirectory(self)
        self.nodes = {name: StoreNode(self, name) for name in hubs}
        self._once_cut: set[str] = set()

    @property
    def store_nodes(self) -> dict[str, StoreNode]:
        return cast("dict[str, StoreNode]", self.nodes)

    async def play(self) -> None:
        await self.directory.begin()
        await super().play()
        await self.until(self.is_settled, 20.0)

    def is_settled(self) -> bool:
        """Whether all hubs serve, know each other and have the same plan."""
        for node in self.nodes.values():
            cluster = None if node.hub is None else node.hub.cluster
            if cluster is None or cluster.router.version != self.directory.plan.version:
                return False
            if cluster.router._serving != frozenset(self.nodes):
                return False
        return True

    # Trouble.

    def _begin(self) -> None:
        super()._begin()
        trouble = self.store_trouble
        for what, (low, high) in (
            (self._cut_store, trouble.store_cuts),
            (self._lose_store, trouble.store_losses),
            (self._reset_store, trouble.store_resets),
        ):
            for _ in range(low + int(self.random.random() * (high - low + 1))):
                at_s = self.random.random() * trouble.duration_s
                self.keep(self._later(at_s, what))
        if trouble.outage_s:
            self.keep(self._later(0.2 + self.random.random() * 0.5, self._go_without_store))

    async def _cut_store(self) -> None:
        # Each once: two cuts in a row could last longer than a session.
        whole = [name for name in sorted(self.nodes) if name not in self._once_cut]
        if not whole:
            return
        node, one_way = self.draw(whole), self.random.random() < 0.5
        self._once_cut.add(node)
        self.sim.cut(node, STORE, one_way=one_way)
        await asyncio.sleep(self.random.random() * 0.4 * SESSION_S)
        self.sim.heal(node, STORE)

    async def _lose_store(self) -> None:
        node = self.draw(sorted(self.nodes))
        self.sim.cut(node, STORE)
        self.excuse()
        await asyncio.sleep((1.1 + self.random.random()) * SESSION_S)
        self.sim.heal(node, STORE)
        self.excuse()

    def _reset_store(self) -> None:
        self.sim.reset_connections(self.draw(sorted(self.nodes)), STORE)

    async def _go_without_store(self) -> None:
        is_network = self.store_trouble.is_outage_of_network
        if is_network:
            for name in self.nodes:
                self.sim.cut(name, STORE)
        else:
            self.directory.go_away()
        await asyncio.sleep(self.store_trouble.outage_s)
        if is_network:
            for name in self.nodes:
                self.sim.heal(name, STORE)
                await asyncio.sleep(self.random.random() * 0.5 * SESSION_S)
        else:
            self.directory.serve()

    async def _pause_long(self) -> None:
        node = self.nodes[self.draw(sorted(self.nodes))]
        if node.host.is_up:
            self.excuse()
            node.host.pause()
            await asyncio.sleep((1.1 + self.random.random()) * SESSION_S)
            node.host.thaw()
            self.excuse()

    def excuse(self) -> None:
        """A hub dies, or is taken for dead: until everybody has heard of it, and is back."""
        self.excused.append((self.sim.now - 2.0, self.sim.now + 2.5 * SESSION_S + 2.5))

    async def _join(self) -> None:
        self._spare += 1
        name = f"new-{self._spare}"
        node = self.nodes[name] = StoreNode(self, name)
        node.start()

    def _heal(self, driven: list[Driven]) -> None:
        for name in self.nodes:
            self.sim.heal(name, STORE)
        if not self.sim.host(STORE).is_up:
            self.directory.serve()
        super()._heal(driven)
        # Healing ends all stories, the operator's among them.
        self.directory.attend()


def run(
    seed: int,
    trouble: StoreTrouble,
    *,
    clients: tuple[Client, ...] = CROWD,
    hubs: tuple[str, ...] = ("h1", "h2", "h3"),
    judge: Callable[[StoreWorld], list[Violation]] | None = None,
) -> Outcomes:
    """Play one seed and judge it."""
    draw = Random(f"network {seed}")
    spec = LinkSpec(latency_s=0.000_2 + draw.random() * 0.01, jitter_s=max(0.0, draw.random() - 0.5) * 0.02)
    with Simulation(seed=seed, topology=Lan(spec), split=draw.random() * 0.2, time_s_max=1_000.0) as sim:
        world = StoreWorld(sim, trouble, clients, hubs)
        sim.run(world.play())
        world.forgive()
        names = ("once", "order", "progress")
        violations = [violation for name in names for violation in CHECKERS[name](world.history)]
        if not trouble.is_gap_allowed:
            violations += _gaps(world.history)
        if not world.is_settled():
            violations.append(Violation("settled", "the hubs do not agree on plan and peers"))
        if judge is not None:
            violations += judge(world)
        return Outcomes(violations, world.history, world.fired, world.counters(), sim.trace.digest())
