"""A controller in virtual time, on a real (memory) store, with views made by hand."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from equipoise.control.controller import Controller
from equipoise.control.provision import Provisioner, StoreProvisioner
from equipoise.control.settings import ControllerSettings
from equipoise.lab.simulation import Simulation
from equipoise.model import Plan
from equipoise.plan import Planner, PlannerSettings, Policy
from equipoise.store import HubFacts, HubsStore, LeaderFacts, MemoryStore, MemoryTree, PlanStore, Tree
from equipoise.view import HubView, TopicView, View

TREE = Tree("test")
MEGA = 1_000_000.0


class Views:
    """What the pipeline would send."""

    def __init__(self) -> None:
        self.latest: View | None = None
        self.news = asyncio.Event()

    def take(self, view: View) -> None:
        self.latest = view
        self.news.set()


class World:
    """One store and as many controllers and hubs as a test needs, on one simulated loop."""

    def __init__(self, sim: Simulation) -> None:
        self.sim = sim
        self.tree = MemoryTree(sim.loop.time)
        self.views = Views()
        self.stores: dict[str, MemoryStore] = {}
        self.running: dict[str, asyncio.Task[None]] = {}
        self._feeding: asyncio.Task[None] | None = None

    async def store(self, name: str) -> MemoryStore:
        self.stores[name] = await MemoryStore(self.tree).open()
        return self.stores[name]

    async def crash(self, name: str) -> None:
        """Of a controller or a hub: nothing more is done, and the session ends."""
        task = self.running.pop(name, None)
        if task is not None:
            task.cancel()
            await asyncio.wait([task])
        await self.stores.pop(name).close()

    async def hub(self, name: str, incarnation: int = 1, site: str = "") -> None:
        facts = HubFacts(hub=name, address=f"{name}:6399", incarnation=incarnation, site=site)
        await HubsStore(await self.store(name), TREE).announce(facts)

    async def controller(
        self,
        name: str = "one",
        planner: PlannerSettings | None = None,
        *,
        policy: Policy | None = None,
        provisioner: Callable[[MemoryStore], Provisioner] = lambda store: StoreProvisioner(store, TREE),
        **settings: Any,
    ) -> Controller:
        store = await self.store(name)
        made = ControllerSettings(name=name, **settings)
        controller = Controller(
            store,
            TREE,
            made,
            policy=policy or Planner(planner or PlannerSettings(plan_wait_s=5.0)),
            views=self.views,
            provisioner=provisioner(store),
            facts=LeaderFacts(name=name, site=made.site),
            clock=self.sim.loop.time,
        )
        self.running[name] = self.sim.loop.create_task(controller.run())
        return controller

    async def plan(self) -> Plan:
        reader = self.stores.get("reader") or await self.store("reader")
        return await PlanStore(reader, TREE).load()

    def feed(self, load: Mapping[str, Mapping[bytes, float]]) -> None:
        """From now on a view each second in which these hubs send these topics, in MB/s; each can send 10."""
        if self._feeding is not None:
            self._feeding.cancel()
        self._feeding = self.sim.loop.create_task(self._feed(load))

    def stop_feeding(self) -> None:
        assert self._feeding is not None
        self._feeding.cancel()

    async def _feed(self, load: Mapping[str, Mapping[bytes, float]]) -> None:
        while True:
            self.show(load)
            await asyncio.sleep(1.0)

    def show(self, load: Mapping[str, Mapping[bytes, float]]) -> None:
        """One view of that."""
        hubs = [
            HubView(
                name=hub,
                out_bytes_per_s=MEGA * sum(topics.values()),
                out_bytes_per_s_max=10 * MEGA,
                incarnation=1,
                plan_version=10**9,
            )
            for hub, topics in load.items()
        ]
        topics = [
            TopicView(
                name=topic,
                publications_per_s=100,
                deliveries_per_s=1_000,
                out_bytes_per_s=MEGA * rate,
                out_bytes_per_s_max=MEGA * rate,
                publishers=10,
                subscribers=10,
                carried_by={hub: 1.0},
            )
            for hub, carried in load.items()
            for topic, rate in carried.items()
        ]
        self.views.take(View.of(self.sim.loop.time(), topics, hubs))


def play(
    scenario: Callable[[World], Coroutine[Any, Any, None]], seed: int = 1, *, world: type[World] = World
) -> None:
    with Simulation(seed, shuffle=True) as sim:
        sim.run(scenario(world(sim)))


def members_of(plan: Plan) -> list[str]:
    return [member.hub for member in plan.members]
