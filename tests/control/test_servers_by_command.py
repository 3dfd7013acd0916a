"""Hubs requested with a provision command, in virtual time: failures are retried, and rounds continue."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from control.control_world import TREE, World, members_of, play
from equipoise.control.controller import Controller
from equipoise.control.provision import COMMANDS_MAX, CommandProvisioner
from equipoise.errors import ProvisionError
from equipoise.plan import PlannerSettings
from equipoise.store import MemoryStore, ServersStore, WantedServer
from support.polling import until

# In MB/s, of hubs that can send ten: one server is missing.
BUSY = {f"t{number}".encode(): 1.5 for number in range(7)}
PLANNER = PlannerSettings(plan_wait_s=5.0, rental_min_s=20.0, servers_max=3)


class Cloud:
    """The provider that the command calls."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.calls: list[tuple[str, str]] = []
        # How many commands fail from now on, what each takes, and whether hubs come alive after `start`.
        self.fails = 0
        self.takes_s = 0.1
        self.hubs_come = True
        self.running = self.running_max = 0
        self.provisioner: CommandProvisioner | None = None

    async def call(self, words: Sequence[str]) -> None:
        program, verb, hub = words
        assert program == "cloud"
        self.calls.append((verb, hub))
        self.running += 1
        self.running_max = max(self.running_max, self.running)
        try:
            await asyncio.sleep(self.takes_s)
        finally:
            self.running -= 1
        if self.fails:
            self.fails -= 1
            raise ProvisionError(f"cloud {verb} {hub} ended with status 1: no")
        if verb == "start" and self.hubs_come:
            await self.world.hub(hub)
        elif verb == "stop" and hub in self.world.stores:
            await self.world.crash(hub)

    def provision(self, store: MemoryStore) -> CommandProvisioner:
        self.provisioner = CommandProvisioner("cloud", store, TREE, call=self.call)
        return self.provisioner

    async def controller(self, *, hub_start_timeout_s: float) -> Controller:
        return await self.world.controller(
            "one",
            PLANNER,
            provisioner=self.provision,
            hubs_min=1,
            hubs_max=3,
            hub_start_timeout_s=hub_start_timeout_s,
        )

    async def wanted(self) -> list[str]:
        reader = self.world.stores.get("reader") or await self.world.store("reader")
        return sorted(await ServersStore(reader, TREE).load())


async def overloaded(world: World, *, hub_start_timeout_s: float = 600.0) -> tuple[Cloud, Controller]:
    cloud = Cloud(world)
    await world.hub("a")
    controller = await cloud.controller(hub_start_timeout_s=hub_start_timeout_s)
    await until(lambda: len(controller.knowledge.plan.members) == 1)
    world.feed({"a": BUSY})
    return cloud, controller


def test_a_start_that_fails_is_repeated_until_it_works() -> None:
    async def scenario(world: World) -> None:
        cloud, controller = await overloaded(world)
        cloud.fails = 3
        await until(lambda: "hub-1" in members_of(controller.knowledge.plan), 300.0)
        assert cloud.calls == [("start", "hub-1")] * 4
        assert cloud.provisioner is not None and cloud.provisioner.failures == 3
        # It has worked at last: nothing is left to show.
        assert cloud.provisioner.problem == ""
        assert await cloud.wanted() == ["hub-1"]
        # Once it has worked it is not called again.
        await asyncio.sleep(60.0)
        assert cloud.calls.count(("start", "hub-1")) == 4

    play(scenario)


def test_a_machine_that_never_starts_is_abandoned_stopped_and_replaced() -> None:
    async def scenario(world: World) -> None:
        cloud, controller = await overloaded(world, hub_start_timeout_s=120.0)
        cloud.hubs_come = False
        await until(lambda: bool(cloud.calls), 300.0)
        await asyncio.sleep(110.0)
        assert cloud.calls == [("start", "hub-1")]
        await until(lambda: len(cloud.calls) == 3 and cloud.running == 0, 30.0)
        await asyncio.sleep(1.0)
        assert sorted(cloud.calls) == [("start", "hub-1"), ("start", "hub-2"), ("stop", "hub-1")]
        assert await cloud.wanted() == ["hub-2"]
        cloud.hubs_come = True
        await until(lambda: len(members_of(controller.knowledge.plan)) == 2, 300.0)

    play(scenario)


def test_a_slow_command_does_not_delay_planning() -> None:
    async def scenario(world: World) -> None:
        cloud, controller = await overloaded(world)
        cloud.takes_s = 55.0
        await until(lambda: cloud.running == 1, 300.0)
        rounds = controller.status.rounds
        await world.hub("b")
        await until(lambda: "b" in members_of(controller.knowledge.plan), 10.0)
        await asyncio.sleep(30.0)
        assert cloud.running == 1 and controller.status.rounds >= rounds + 6
        assert controller.status.failures == 0

    play(scenario)


def test_a_missing_hub_is_started_again() -> None:
    async def scenario(world: World) -> None:
        cloud, controller = await overloaded(world)
        await until(lambda: "hub-1" in members_of(controller.knowledge.plan), 300.0)
        await asyncio.sleep(30.0)
        await world.crash("hub-1")
        await until(lambda: cloud.calls.count(("start", "hub-1")) == 2, 30.0)

    play(scenario)


def test_a_released_hub_is_stopped_until_that_succeeds_and_not_started_again() -> None:
    async def scenario(world: World) -> None:
        cloud, controller = await overloaded(world)
        await until(lambda: "hub-1" in members_of(controller.knowledge.plan), 300.0)
        starts = cloud.calls.count(("start", "hub-1"))
        cloud.fails = 2
        world.feed({"a": {b"t0": 0.1}, "hub-1": {b"t1": 0.1}})
        await until(lambda: ("stop", "hub-1") in cloud.calls, 600.0)
        # The machine is gone though the command failed.
        await world.crash("hub-1")
        world.feed({"a": {b"t0": 0.1}})
        await until(lambda: cloud.calls.count(("stop", "hub-1")) == 3, 300.0)
        await asyncio.sleep(60.0)
        assert cloud.calls.count(("stop", "hub-1")) == 3
        assert cloud.calls.count(("start", "hub-1")) == starts
        assert await cloud.wanted() == []

    play(scenario)


def test_several_commands_run_at_once_and_never_more_than_the_limit() -> None:
    async def scenario(world: World) -> None:
        cloud = Cloud(world)
        cloud.takes_s = 30.0
        provisioner = cloud.provision(await world.store("one"))
        names = [f"hub-{number}" for number in range(COMMANDS_MAX + 3)]
        began = world.sim.loop.time()
        await provisioner.start([WantedServer(hub=name) for name in names])
        assert world.sim.loop.time() - began < 1.0
        assert await cloud.wanted() == sorted(names)
        await until(lambda: len(cloud.calls) == len(names) and cloud.running == 0, 100.0)
        assert cloud.running_max == COMMANDS_MAX
        assert world.sim.loop.time() - began < 70.0

    play(scenario)


def test_a_hub_stopped_during_a_round_is_not_requested_again_at_its_end() -> None:
    async def scenario(world: World) -> None:
        cloud = Cloud(world)
        cloud.hubs_come = False
        provisioner = cloud.provision(await world.store("one"))
        await provisioner.start([WantedServer(hub="hub-1")])
        await until(lambda: cloud.calls == [("start", "hub-1")] and cloud.running == 0)
        missing = sorted(await provisioner.wanted())
        await provisioner.stop(missing)
        await until(lambda: cloud.calls[-1] == ("stop", "hub-1") and cloud.running == 0)
        await asyncio.sleep(1.0)
        await provisioner.remind(missing)
        await asyncio.sleep(10.0)
        assert await cloud.wanted() == [] and len(cloud.calls) == 2

    play(scenario)


def test_a_start_that_hangs_is_cut_off_by_the_stop() -> None:
    async def scenario(world: World) -> None:
        cloud = Cloud(world)
        cloud.takes_s = 50.0
        provisioner = cloud.provision(await world.store("one"))
        await provisioner.start([WantedServer(hub="hub-1")])
        await until(lambda: cloud.running == 1)
        cloud.takes_s = 0.1
        await provisioner.stop(["hub-1"])
        await until(lambda: cloud.calls[-1] == ("stop", "hub-1") and cloud.running == 0, 5.0)
        assert cloud.running_max == 1
        await provisioner.close()

    play(scenario)
