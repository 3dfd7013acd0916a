"""The live hubs read with a plan are used with that plan, and never replace newer ones."""

from __future__ import annotations

import pytest

from equipoise.hub.membership.liveness import HubLooks
from equipoise.model import Plan
from equipoise.store import MemoryStore
from equipoise.store.contract import Answer
from equipoise.store.records.hubs import HubsStore
from equipoise.store.records.hubs_snapshot import HubFacts
from store.memory_world import TREE, MemoryWorld, run

OLD, NEW = Plan(1), Plan(2)


class World(MemoryWorld):
    """Two hubs, and an observer that reads them with a plan."""

    async def begin(self) -> HubLooks:
        self.reader = await self.store()
        self.hubs = HubsStore(self.reader, TREE)
        self.stores = {name: await self._announce(name) for name in ("h1", "h2")}
        glances = HubLooks(self.hubs)
        assert set(await glances.see(OLD)) == {"h1", "h2"}
        return glances

    async def _announce(self, name: str) -> MemoryStore:
        store = await self.store()
        await HubsStore(store, TREE).announce(HubFacts(hub=name, address=f"{name}:1", incarnation=1))
        return store

    async def glance(self, glances: HubLooks) -> tuple[Answer, ...]:
        return await self.reader.read(glances.begin(is_held=True))

    async def alive(self, glances: HubLooks, plan: Plan) -> set[str]:
        return {name for name, seen in (await glances.see(plan)).items() if seen.alive is not None}


def test_hubs_read_with_the_plan_are_used_without_another_read() -> None:
    async def scenario() -> None:
        world = World()
        glances = await world.begin()
        glances.keep(NEW, await world.glance(glances))
        await world.reader.close()
        assert await world.alive(glances, NEW) == {"h1", "h2"}

    run(scenario())


def test_they_are_used_once() -> None:
    async def scenario() -> None:
        world = World()
        glances = await world.begin()
        glances.keep(NEW, await world.glance(glances))
        await glances.see(NEW)
        await world.stores["h2"].close()
        assert await world.alive(glances, NEW) == {"h1"}

    run(scenario())


def test_they_are_used_with_their_own_plan_only() -> None:
    # 1 a plan comes with the hubs; 2 h2 dies; 3 a later plan comes by itself, committed after that.
    async def scenario() -> None:
        world = World()
        glances = await world.begin()
        glances.keep(OLD, await world.glance(glances))
        await world.stores["h2"].close()
        assert await world.alive(glances, NEW) == {"h1"}
        glances.keep(OLD, await world.glance(glances))
        glances.keep(NEW, None)
        assert await world.alive(glances, NEW) == {"h1"}

    run(scenario())


def test_a_hub_that_was_notified_of_a_change_ignores_an_older_read() -> None:
    # 1 the hubs are read with the plan; 2 h2 dies, with a notification; 3 using the read hubs would undo that.
    async def scenario() -> None:
        world = World()
        glances = await world.begin()
        glances.keep(NEW, await world.glance(glances))
        await world.stores["h2"].close()
        glances.outdate()
        assert await world.alive(glances, NEW) == {"h1"}
        # The same while the answers are still on their way.
        answers = await world.glance(glances)
        await world.stores["h1"].close()
        glances.outdate()
        glances.keep(NEW, answers)
        assert await world.alive(glances, NEW) == set()

    run(scenario())


def test_without_that_the_change_would_be_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(HubLooks, "outdate", lambda self: None)
    with pytest.raises(AssertionError):
        test_a_hub_that_was_notified_of_a_change_ignores_an_older_read()


def test_an_older_read_does_not_bring_a_dead_hub_back() -> None:
    # 1 the hubs are read with the next plan; 2 h2 dies; 3 under the old plan they are read for another reason;
    # 4 the next plan has arrived, with the hubs read before.
    async def scenario() -> None:
        world = World()
        glances = await world.begin()
        answers = await world.glance(glances)
        await world.stores["h2"].close()
        assert await world.alive(glances, OLD) == {"h1"}
        glances.keep(NEW, answers)
        assert await world.alive(glances, NEW) == {"h1"}

    run(scenario())


def test_a_hub_that_is_not_alive_itself_asks_for_nothing() -> None:
    async def scenario() -> None:
        world = World()
        glances = await world.begin()
        await world.glance(glances)
        assert glances.begin(is_held=False) == ()
        glances.keep(NEW, [])
        assert await world.alive(glances, NEW) == {"h1", "h2"}

    run(scenario())
