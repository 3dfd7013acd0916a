"""A leader that dies during an action: after any write, another controller completes the action."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from control.control_world import TREE, World, members_of, play
from equipoise.model import Plan
from equipoise.plan import PlannerSettings
from equipoise.store import MemoryStore, Node, PlanStore, ServersStore

# In MB/s, of hubs that can send ten.
TOPICS = {f"t{number}".encode(): 1.5 for number in range(7)}
BUSY_S, QUIET_S = 40.0, 200.0


class MortalStore(MemoryStore):
    """Stops for ever after that many writes."""

    writes_left: float = float("inf")
    died: asyncio.Event

    async def _live(self) -> None:
        self.writes_left -= 1
        if self.writes_left <= 0:
            self.died.set()
            await asyncio.Event().wait()

    async def create(self, path: str, data: bytes = b"", *, ephemeral: bool = False) -> Node:
        node = await super().create(path, data, ephemeral=ephemeral)
        await self._live()
        return node

    async def set(self, path: str, data: bytes, *, version: int | None) -> Node:
        node = await super().set(path, data, version=version)
        await self._live()
        return node


class GrowingWorld(World):
    """The provisioner starts and stops hubs as the store requests; topics are at their planned homes."""

    async def store(self, name: str) -> MemoryStore:
        if name != "one":
            return await super().store(name)
        store = await MortalStore(self.tree).open()
        assert isinstance(store, MortalStore)
        store.died = asyncio.Event()
        self.stores[name] = store
        return store

    async def provide(self) -> None:
        async for wanted in ServersStore(await self.store("machines"), TREE).watch():
            for name in wanted.keys() - self.stores.keys():
                await self.hub(name)
            for name in [name for name in self.stores if name.startswith("hub-") and name not in wanted]:
                assert name not in members_of(await self.plan()), "it was stopped while it was a member"
                await self.crash(name)

    async def carry(self, factor: float, seconds: float) -> None:
        for _ in range(int(seconds)):
            plan: Plan = await self.plan()
            load: dict[str, dict[bytes, float]] = {
                name: {} for name in self.stores if name == "a" or name.startswith("hub-")
            }
            for topic, rate in TOPICS.items():
                homes = plan.home_of(topic).homes if plan.members else ("a",)
                load[homes[0]][topic] = rate * factor
            self.show(load)
            await asyncio.sleep(1.0)


async def story(world: GrowingWorld, writes: int) -> tuple[bool, int]:
    """Load comes and goes, and the first leader dies after so many writes; whether it did, and its servers' peak."""
    bounds: dict[str, Any] = {"hubs_min": 1, "hubs_max": 3}
    planner = PlannerSettings(plan_wait_s=5.0, rental_min_s=20.0, servers_max=3)
    await world.hub("a")
    await world.controller("one", planner, **bounds)
    mortal = world.stores["one"]
    assert isinstance(mortal, MortalStore)
    providing = world.sim.loop.create_task(world.provide())
    await asyncio.sleep(10.0)
    await world.controller("two", planner, **bounds)
    mortal.writes_left = writes
    removal = world.sim.loop.create_task(_remove_leader(world, mortal))
    await world.carry(1.0, BUSY_S)
    peak = len((await world.plan()).members)
    await world.carry(0.1, QUIET_S)
    for task in (providing, removal):
        task.cancel()
    await asyncio.gather(providing, removal, return_exceptions=True)
    return mortal.died.is_set(), peak


async def _remove_leader(world: GrowingWorld, store: MortalStore) -> None:
    await store.died.wait()
    await world.crash("one")


@pytest.mark.parametrize("writes", [1, 2, 3, 5, 8, 11, 14, 16, 17, 18, 19, 20, 21, 22, 23, 24, 1_000])
def test_a_leader_may_die_after_any_write_and_servers_still_come_and_go(writes: int) -> None:
    async def scenario(world: World) -> None:
        assert isinstance(world, GrowingWorld)
        has_died, peak = await story(world, writes)
        assert has_died == (writes < 1_000)
        assert peak > 1
        plan = await world.plan()
        assert [(member.hub, member.weight) for member in plan.members] == [("a", 16)]
        reader = await world.store("reader")
        assert await ServersStore(reader, TREE).load() == {}
        assert [name for name in world.stores if name.startswith("hub-")] == []
        versions = [one.change.version for one in await PlanStore(reader, TREE).history(1_000)]
        assert versions == list(range(plan.version, plan.version - len(versions), -1))

    play(scenario, world=GrowingWorld)
