"""A controller in virtual time, on a real (memory) store, with views made by hand."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

import pytest

from control.control_world import TREE, World, members_of, play
from equipoise.control.provision import StoreProvisioner
from equipoise.control.rounds import ControllerState
from equipoise.control.settings import ControllerSettings
from equipoise.errors import SettingsError, StoreUnavailableError
from equipoise.model import Entry, Member, Mode, PlanChange, Reason, Why
from equipoise.store import LeaderStore, PlanStore, WantedServer
from support.polling import until


def test_new_hubs_are_admitted_before_the_first_view() -> None:
    async def scenario(world: World) -> None:
        controller = await world.controller()
        await world.hub("a")
        await until(lambda: members_of(controller.knowledge.plan) == ["a"])
        await world.hub("b")
        await until(lambda: members_of(controller.knowledge.plan) == ["a", "b"])
        assert controller.status.state is ControllerState.FROZEN
        assert "pipeline" in controller.status.frozen

    play(scenario)


def test_hubs_that_start_right_after_each_other_join_in_one_plan() -> None:
    async def scenario(world: World) -> None:
        controller = await world.controller()
        await world.hub("a")
        world.feed({"a": {b"t": 1.0}})
        await until(lambda: controller.status.state is ControllerState.LEADING)
        version = controller.knowledge.plan.version
        for name in ("b", "c", "d"):
            await world.hub(name)
            await asyncio.sleep(0.2)
        await until(lambda: members_of(controller.knowledge.plan) == ["a", "b", "c", "d"])
        assert controller.knowledge.plan.version == version + 1

    play(scenario)


def test_a_member_that_restarts_does_not_wait_for_others() -> None:
    async def scenario(world: World) -> None:
        controller = await world.controller(join_gather_s=60.0, period_s=600.0)
        await world.hub("a")
        await until(lambda: members_of(controller.knowledge.plan) == ["a"])
        version = controller.knowledge.plan.version
        await world.crash("a")
        await world.hub("a", incarnation=2)
        await until(lambda: controller.knowledge.plan.version > version, 5.0)

    play(scenario)


def test_a_hot_topic_is_moved_with_its_reason_in_the_history() -> None:
    async def scenario(world: World) -> None:
        controller = await world.controller()
        await world.hub("a")
        await world.hub("b")
        await until(lambda: len(controller.knowledge.plan.members) == 2)
        world.feed({"a": {b"hot-1": 5.0, b"hot-2": 4.5}, "b": {b"calm": 0.5}})
        plan = controller.knowledge.plan
        await until(lambda: bool(controller.knowledge.plan.entries), 120.0)
        assert controller.status.state is ControllerState.LEADING
        committed = (await PlanStore(world.stores["one"], TREE).history(1))[0]
        assert committed.change.version > plan.version
        assert committed.change.entries[0].why.numbers

    play(scenario)


def test_an_overload_starts_a_round_before_the_end_of_the_period() -> None:
    async def scenario(world: World) -> None:
        controller = await world.controller(period_s=600.0)
        await world.hub("a")
        await world.hub("b")
        await until(lambda: len(controller.knowledge.plan.members) == 2)
        calm = {"a": {b"hot-1": 0.5, b"hot-2": 0.5}, "b": {b"calm": 0.5}}
        world.feed(calm)
        await asyncio.sleep(60.0)
        rounds = controller.status.rounds
        assert controller.status.state is ControllerState.LEADING
        await asyncio.sleep(60.0)
        assert controller.status.rounds == rounds
        world.feed({"a": {b"hot-1": 5.0, b"hot-2": 4.5}, "b": {b"calm": 0.5}})
        await until(lambda: bool(controller.knowledge.plan.entries), 5.0)

    play(scenario)


def test_a_view_that_gets_old_freezes_the_plan_until_a_new_one_comes() -> None:
    async def scenario(world: World) -> None:
        controller = await world.controller()
        await world.hub("a")
        world.feed({"a": {b"t": 1.0}})
        await until(lambda: controller.status.state is ControllerState.LEADING)
        world.stop_feeding()
        await until(lambda: controller.status.state is ControllerState.FROZEN)
        version = controller.knowledge.plan.version
        await asyncio.sleep(60.0)
        assert controller.knowledge.plan.version == version
        assert "old" in controller.status.frozen
        world.feed({"a": {b"t": 1.0}})
        await until(lambda: controller.status.state is ControllerState.LEADING)

    play(scenario)


def test_a_standby_takes_over_when_the_leader_dies() -> None:
    async def scenario(world: World) -> None:
        one = await world.controller("one")
        await until(lambda: one.leadership.is_leading)
        two = await world.controller("two")
        await asyncio.sleep(20.0)
        assert not two.leadership.is_leading and two.status.state is ControllerState.STANDBY
        await world.crash("one")
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


def test_servers_are_requested_within_the_limit() -> None:
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


def test_without_a_limit_no_server_is_requested() -> None:
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


def test_a_lost_store_stops_rounds_and_not_the_controller() -> None:
    class Failing:
        def __init__(self, inner: StoreProvisioner) -> None:
            self.inner, self.is_failing = inner, False

        problem = ""

        async def wanted(self) -> Mapping[str, WantedServer]:
            if self.is_failing:
                raise StoreUnavailableError("away")
            return await self.inner.wanted()

        async def start(self, servers: Sequence[WantedServer]) -> None:
            await self.inner.start(servers)

        async def remind(self, hubs: Sequence[str]) -> None:
            await self.inner.remind(hubs)

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


def test_contradictory_limits_are_rejected() -> None:
    with pytest.raises(SettingsError):
        ControllerSettings(hubs_min=3, hubs_max=2)


def test_a_member_without_weight_counts_as_drained() -> None:
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
