"""A controller in virtual time, on a real (memory) store, with views made by hand."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any

import pytest

from equipoise.control import Controller, ControllerSettings, State, StoreProvisioner
from equipoise.errors import SettingsError, StoreUnavailableError
from equipoise.model import Entry, Member, Mode, Plan, PlanChange, Reason, Why
from equipoise.plan import HubView, Planner, PlannerSettings, TopicView, View
from equipoise.simulation import Simulation
from equipoise.store import (
    HubFacts,
    HubsStore,
    LeaderFacts,
    LeaderStore,
    MemoryStore,
    MemoryTree,
    PlanStore,
    Tree,
    Wanted,
)

TREE = Tree("test")
MEGA = 1_000_000.0


class Views:
    """What the pipeline would send."""

    def __init__(self) -> None:
        self.latest: View | None = None


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

    async def hub(self, name: str, incarnation: int = 1, site: str = "") -> None:
        facts = HubFacts(hub=name, address=f"{name}:6399", incarnation=incarnation, site=site)
        await HubsStore(await self.store(name), TREE).announce(facts)

    async def controller(self, name: str = "one", **settings: Any) -> Controller:
        store = await self.store(name)
        made = ControllerSettings(name=name, **settings)
        controller = Controller(
            store,
            TREE,
            made,
            policy=Planner(PlannerSettings(plan_wait_s=5.0)),
            views=self.views,
            provisioner=StoreProvisioner(store, TREE),
            facts=LeaderFacts(name=name, site=made.site),
            clock=self.sim.loop.time,
        )
        self.running[name] = self.sim.loop.create_task(controller.run())
        return controller

    async def plan(self) -> Plan:
        return await PlanStore(await self.store("reader"), TREE).load()

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
            self.views.latest = View.of(self.sim.loop.time(), topics, hubs)
            await asyncio.sleep(1.0)


def play(scenario: Callable[[World], Coroutine[Any, Any, None]], seed: int = 1) -> None:
    with Simulation(seed, shuffle=True) as sim:
        sim.run(scenario(World(sim)))


async def until(is_so: Callable[[], bool], patience_s: float = 60.0) -> None:
    async with asyncio.timeout(patience_s):
        while not is_so():  # noqa: ASYNC110  virtual time: polling costs nothing
            await asyncio.sleep(0.1)


def members_of(plan: Plan) -> list[str]:
    return [member.hub for member in plan.members]


def test_hubs_that_come_alive_are_let_in_though_nobody_has_seen_a_view() -> None:
    async def scenario(world: World) -> None:
        controller = await world.controller()
        await world.hub("a")
        await until(lambda: members_of(controller.knowledge.plan) == ["a"])
        await world.hub("b")
        await until(lambda: members_of(controller.knowledge.plan) == ["a", "b"])
        assert controller.status.state is State.FROZEN
        assert "pipeline" in controller.status.frozen

    play(scenario)


def test_a_hot_topic_is_moved_with_its_reason_kept_in_the_history() -> None:
    async def scenario(world: World) -> None:
        controller = await world.controller()
        await world.hub("a")
        await world.hub("b")
        await until(lambda: len(controller.knowledge.plan.members) == 2)
        world.feed({"a": {b"hot-1": 5.0, b"hot-2": 4.5}, "b": {b"calm": 0.5}})
        plan = controller.knowledge.plan
        await until(lambda: bool(controller.knowledge.plan.entries), 120.0)
        assert controller.status.state is State.LEADING
        committed = (await PlanStore(world.stores["one"], TREE).history(1))[0]
        assert committed.change.version > plan.version
        assert committed.change.entries[0].why.numbers

    play(scenario)


def test_a_view_that_gets_old_freezes_the_plan_until_a_new_one_comes() -> None:
    async def scenario(world: World) -> None:
        controller = await world.controller()
        await world.hub("a")
        world.feed({"a": {b"t": 1.0}})
        await until(lambda: controller.status.state is State.LEADING)
        world.stop_feeding()
        await until(lambda: controller.status.state is State.FROZEN)
        version = controller.knowledge.plan.version
        await asyncio.sleep(60.0)
        assert controller.knowledge.plan.version == version
        assert "old" in controller.status.frozen
        world.feed({"a": {b"t": 1.0}})
        await until(lambda: controller.status.state is State.LEADING)

    play(scenario)


def test_a_standby_takes_over_when_the_leader_dies() -> None:
    async def scenario(world: World) -> None:
        one = await world.controller("one")
        await until(lambda: one.leadership.is_leading)
        two = await world.controller("two")
        await asyncio.sleep(20.0)
        assert not two.leadership.is_leading and two.status.state is State.STANDBY
        world.running["one"].cancel()
        await asyncio.wait([world.running["one"]])
        await world.stores["one"].close()
        await until(lambda: two.leadership.is_leading)
        await world.hub("a")
        await until(lambda: members_of(two.knowledge.plan) == ["a"])

    play(scenario)


def test_a_controller_outside_the_named_sites_never_leads() -> None:
    async def scenario(world: World) -> None:
        paris = await world.controller("paris", site="paris", sites=("lyon",))
        lyon = await world.controller("lyon", site="lyon", sites=("lyon",))
        await until(lambda: lyon.leadership.is_leading)
        await lyon.leadership.resign()
        await asyncio.sleep(5.0)
        assert not paris.leadership.is_leading
        leader = await LeaderStore(await world.store("reader"), TREE).load()
        assert leader is not None and leader.name == "lyon"

    play(scenario)


def test_servers_are_asked_for_within_the_bound_and_never_beyond() -> None:
    async def scenario(world: World) -> None:
        controller = await world.controller(hubs_min=1, hubs_max=3)
        await world.hub("a")
        await until(lambda: len(controller.knowledge.plan.members) == 1)
        world.feed({"a": {f"t{i}".encode(): 1.5 for i in range(7)}})
        provisioner = StoreProvisioner(await world.store("reader"), TREE)
        async with asyncio.timeout(300.0):
            while not await provisioner.wanted():  # noqa: ASYNC110  as above
                await asyncio.sleep(0.5)
        await asyncio.sleep(300.0)
        wanted = await provisioner.wanted()
        assert 1 <= len(wanted) <= 2
        assert all(name.startswith("hub-") for name in wanted)
        assert controller.status.failures == 0

    play(scenario)


def test_without_a_bound_no_server_is_asked_for() -> None:
    async def scenario(world: World) -> None:
        await world.controller()
        await world.hub("a")
        world.feed({"a": {f"t{i}".encode(): 1.5 for i in range(7)}})
        await asyncio.sleep(300.0)
        assert await StoreProvisioner(await world.store("reader"), TREE).wanted() == {}

    play(scenario)


def test_an_operator_who_commits_in_between_is_never_overwritten() -> None:
    async def scenario(world: World) -> None:
        controller = await world.controller()
        await world.hub("a")
        await world.hub("b")
        await until(lambda: len(controller.knowledge.plan.members) == 2)
        plans = PlanStore(await world.store("operator"), TREE, writer="operator")
        entry = Entry(b"mine", ("a",), Mode.SINGLE)
        await plans.commit(PlanChange.on(await plans.load(), Why(Reason.OPERATOR), set_entries=[entry]))
        await world.hub("c")
        await until(lambda: len(controller.knowledge.plan.members) == 3)
        assert controller.knowledge.plan.entries[b"mine"] == entry

    play(scenario)


def test_a_store_that_goes_away_stops_rounds_and_not_the_controller() -> None:
    class Failing:
        def __init__(self, inner: StoreProvisioner) -> None:
            self.inner, self.is_failing = inner, False

        async def wanted(self) -> Mapping[str, Wanted]:
            if self.is_failing:
                raise StoreUnavailableError("away")
            return await self.inner.wanted()

        async def start(self, servers: Sequence[Wanted]) -> None:
            await self.inner.start(servers)

        async def stop(self, hubs: Sequence[str]) -> None:
            await self.inner.stop(hubs)

    async def scenario(world: World) -> None:
        controller = await world.controller()
        failing = Failing(StoreProvisioner(world.stores["one"], TREE))
        controller._provisioner = failing
        await until(lambda: controller.status.rounds > 0)
        failing.is_failing = True
        await until(lambda: controller.status.failures > 0)
        failing.is_failing = False
        rounds = controller.status.rounds
        await until(lambda: controller.status.rounds > rounds)

    play(scenario)


def test_bounds_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(SettingsError):
        ControllerSettings(hubs_min=3, hubs_max=2)


def test_a_member_without_weight_is_taken_for_one_that_is_drained() -> None:
    async def scenario(world: World) -> None:
        controller = await world.controller()
        await world.hub("a")
        await world.hub("b")
        await until(lambda: len(controller.knowledge.plan.members) == 2)
        plans = PlanStore(await world.store("operator"), TREE, writer="operator")
        await plans.commit(
            PlanChange.on(await plans.load(), Why(Reason.DRAINED), set_members=[Member("b", 0)])
        )
        world.feed({"a": {b"x": 1.0}, "b": {b"y": 1.0}})
        await asyncio.sleep(60.0)
        assert controller.knowledge.plan.by_hub["b"].weight == 0

    play(scenario)
