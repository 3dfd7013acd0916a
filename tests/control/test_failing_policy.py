"""A failing policy: the controller continues, moves nothing, and reports the reason."""

from __future__ import annotations

import asyncio
import logging

import pytest

from control.control_world import World, members_of, play
from equipoise.control.rounds import ControllerState
from equipoise.model import Plan, Specs
from equipoise.plan import Decision, Memory, Planner, PlannerSettings
from equipoise.view import View
from support.polling import until


class Moody(Planner):
    """Raises the error that the test sets."""

    name = "moody"

    def __init__(self) -> None:
        super().__init__(PlannerSettings(plan_wait_s=5.0))
        self.on_decide: Exception | None = None
        self.on_wakes: Exception | None = None
        self.asked = 0

    def decide(self, view: View, plan: Plan, specs: Specs, now: float, memory: Memory) -> Decision:
        self.asked += 1
        if self.on_decide is not None:
            raise self.on_decide
        return super().decide(view, plan, specs, now, memory)

    def wakes(self, view: View, specs: Specs, memory: Memory) -> bool:
        if self.on_wakes is not None:
            raise self.on_wakes
        return super().wakes(view, specs, memory)


HOT = {"a": {b"hot-1": 5.0, b"hot-2": 4.5}, "b": {b"calm": 0.5}}


def test_a_policy_that_raises_freezes_the_plan_for_as_long_as_it_does(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.ERROR, "equipoise.control")

    async def scenario(world: World) -> None:
        policy = Moody()
        policy.on_decide = KeyError("a topic that is not there")
        controller = await world.controller(policy=policy)
        await world.hub("a")
        world.feed(HOT)
        await until(lambda: controller.status.failures > 2)
        assert controller.status.state is ControllerState.FROZEN
        assert "the policy moody fails: KeyError: 'a topic that is not there'" in controller.status.frozen
        assert "KeyError" in controller.status.history[-1].note
        # Hubs are still admitted, and nothing is moved.
        await world.hub("b")
        await until(lambda: members_of(controller.knowledge.plan) == ["a", "b"])
        assert not controller.knowledge.plan.entries
        policy.on_decide = None
        await until(lambda: controller.status.state is ControllerState.LEADING)
        assert controller.status.frozen == ""
        await until(lambda: bool(controller.knowledge.plan.entries), 120.0)
        assert not world.running["one"].done()

    play(scenario)
    # Once, with the place, however often it failed.
    (record,) = caplog.records
    assert record.exc_info is not None and "decide of the policy moody" in record.getMessage()


def test_a_failing_policy_is_called_once_per_period_and_not_with_every_view() -> None:
    async def scenario(world: World) -> None:
        policy = Moody()
        policy.on_decide = ValueError("no")
        controller = await world.controller(policy=policy, period_s=30.0)
        await world.hub("a")
        world.feed(HOT)
        await until(lambda: controller.status.failures > 0)
        asked = policy.asked
        await asyncio.sleep(60.0)
        assert 1 <= policy.asked - asked <= 3

    play(scenario)


def test_a_policy_whose_wake_up_check_fails_still_decides_in_its_period(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.ERROR, "equipoise.control")

    async def scenario(world: World) -> None:
        policy = Moody()
        policy.on_wakes = TypeError("wakes() takes 3 positional arguments but 4 were given")
        controller = await world.controller(policy=policy)
        await world.hub("a")
        await world.hub("b")
        world.feed(HOT)
        await until(lambda: bool(controller.knowledge.plan.entries), 120.0)
        assert controller.status.state is ControllerState.LEADING and controller.status.failures > 0
        assert not world.running["one"].done()

    play(scenario)
    assert [record.getMessage() for record in caplog.records] == [
        "wakes of the policy moody fails: TypeError: wakes() takes 3 positional arguments but 4 were given"
    ]
