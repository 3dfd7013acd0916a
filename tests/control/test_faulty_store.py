"""A controller whose store fails, at every single request and for a while: it says so, and goes on when it can."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest

from control.control_world import World, members_of, play
from equipoise.control.rounds import ControllerState
from equipoise.errors import StoreError, StoreUnavailableError
from equipoise.plan import PlannerSettings
from equipoise.store import MemoryStore, StoreSettings
from equipoise.store.backends.channel import StoreChannel
from equipoise.store.backends.retry import Attempt
from support.polling import until

T = TypeVar("T")


class FaultyStore(MemoryStore):
    """Fails requests, by their number from 0 on."""

    requests = 0
    failing: range = range(0)
    error: StoreError = StoreUnavailableError("the store did not answer within 1 s")

    async def _count(self) -> None:
        self.requests += 1
        if self.requests - 1 in self.failing:
            if isinstance(self.error, StoreUnavailableError):
                await asyncio.sleep(self.settings.request_timeout_s)
            raise self.error

    async def _read(self, ask: Callable[[StoreChannel], Awaitable[T]]) -> T:
        await self._count()
        return await super()._read(ask)

    async def _write(self, attempt: Attempt[T]) -> T:
        await self._count()
        return await super()._write(attempt)


class FaultyWorld(World):
    """The controller `one` has a store that fails these requests."""

    failing: range
    error: StoreError

    async def store(self, name: str) -> MemoryStore:
        if name != "one":
            return await super().store(name)
        store = FaultyStore(self.tree, StoreSettings(request_timeout_s=1.0))
        store.failing, store.error = self.failing, self.error
        self.stores[name] = await store.open()
        return store


async def story(world: World) -> None:
    controller = await world.controller(planner=PlannerSettings(plan_wait_s=5.0, dead_wait_s=10.0))
    await world.hub("a")
    await until(lambda: members_of(controller.knowledge.plan) == ["a"], 60.0)
    world.feed({"a": {b"t": 1.0}})
    await until(lambda: controller.status.state is ControllerState.LEADING, 60.0)
    await world.hub("b")
    await until(lambda: members_of(controller.knowledge.plan) == ["a", "b"], 60.0)
    await world.crash("b")
    await until(lambda: members_of(controller.knowledge.plan) == ["a"], 60.0)
    assert not world.running["one"].done()
    await until(lambda: controller.store_health.problem == "", 60.0)


# The story takes some 60 requests without a failure.
@pytest.mark.parametrize("error", [StoreUnavailableError("too slow"), StoreError("ZooKeeper rejects it")])
@pytest.mark.parametrize("length", [1, 7])
def test_a_controller_survives_the_failure_of_any_request(error: StoreError, length: int) -> None:
    for first in range(0, 70, length):
        FaultyWorld.failing, FaultyWorld.error = range(first, first + length), error
        play(story, world=FaultyWorld)


def test_a_controller_says_what_the_store_refuses_until_it_works_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario(world: World) -> None:
        controller = await world.controller()
        store = world.stores["one"]
        assert isinstance(store, FaultyStore)
        await asyncio.sleep(30.0)
        said = "the store did not answer within 1 s"
        assert f"plan: {said}" in controller.store_health.problem
        assert not controller.leadership.is_leading
        # Each of a few tasks and watches asks once in the time-out of a request.
        assert store.requests < 200
        assert caplog.text.count(f"plan: {said}") == 1
        store.failing = range(0)
        await world.hub("a")
        await until(lambda: members_of(controller.knowledge.plan) == ["a"], 30.0)
        await until(lambda: controller.store_health.problem == "")
        assert "plan: the store answers again" in caplog.text

    caplog.set_level("INFO", logger="equipoise.control")
    FaultyWorld.failing, FaultyWorld.error = range(10**9), FaultyStore.error
    play(scenario, world=FaultyWorld)


def test_a_hub_that_restarted_unseen_serves_again() -> None:
    """
    1. A hub joins. The leader dies before it has written that down, and then the hub restarts.
    2. The next leader has never seen another incarnation of the hub.

    Found by `equipoise simulate --case cluster-store-controlled --replay 150`: the hub served no topic until another
    plan was made.
    """

    async def scenario(world: World) -> None:
        one = await world.controller("one")
        await world.hub("a")
        await until(lambda: members_of(one.knowledge.plan) == ["a"])
        await asyncio.sleep(20.0)
        await world.hub("b")
        await until(lambda: members_of(one.knowledge.plan) == ["a", "b"])
        version = one.knowledge.plan.version
        await world.crash("one")
        await world.crash("b")
        await world.hub("b", incarnation=2)
        two = await world.controller("two")
        await until(lambda: two.knowledge.plan.version > version, 30.0)
        await asyncio.sleep(30.0)
        assert two.knowledge.plan.version == version + 1

    play(scenario)
