"""A speculative read of the hubs gives the same result as reads step by step, in one round trip."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from random import Random

from equipoise.errors import EquipoiseError
from equipoise.store import MemoryStore, MemoryTree
from equipoise.store.contract import Answer, Read
from equipoise.store.records.hubs import HubsStore
from equipoise.store.records.hubs_snapshot import HubFacts, HubLook, HubSeen
from equipoise.store.tree import ALIVE, ALIVE_NEXT
from store.memory_world import TREE, MemoryWorld, run

NAMES = ("h1", "h/2", "h3", "h4")


class Counted(MemoryStore):
    """Counts the requests that wait for an answer of their own."""

    def __init__(self, tree: MemoryTree) -> None:
        super().__init__(tree)
        self.round_trips = 0

    async def read(self, reads: Sequence[Read]) -> tuple[Answer, ...]:
        self.round_trips += 1
        return await super().read(reads)

    async def children(self, path: str) -> tuple[str, ...]:
        self.round_trips += 1
        return await super().children(path)


def facts_of(hub: str, incarnation: int = 1) -> HubFacts:
    return HubFacts(hub=hub, address=f"{hub}:6399", incarnation=incarnation)


class Crowd:
    """Hubs that start, die, return and are removed, each in a session of its own."""

    def __init__(self, world: MemoryWorld, random: Random) -> None:
        self._world, self._random = world, random
        self._stores: dict[str, MemoryStore] = {}
        self._lives = 0

    async def step(self) -> None:
        name = self._random.choice(NAMES)
        store = self._stores.get(name)
        match self._random.choice(["come", "come", "die", "withdraw", "load", "stand in", "forget"]):
            case "come" if store is None:
                self._lives += 1
                store = self._stores[name] = await self._world.store()
                await HubsStore(store, TREE).announce(facts_of(name, self._lives), patience_s=0.01)
            case "die" if store is not None:
                del self._stores[name]
                await store.close()
            case "withdraw" if store is not None:
                await HubsStore(store, TREE).withdraw(name)
            case "load" if store is not None:
                await HubsStore(store, TREE).report(facts_of(name), load_ratio=self._random.random())
            case "stand in" if store is not None:
                alive = await store.get(TREE.alive(name))
                await store.create(TREE.alive_next(name), alive.data, ephemeral=True)
                await store.delete(alive.path)
            case "forget" if store is None:
                await HubsStore(await self._world.store(), TREE).forget(name)


def test_a_speculative_read_agrees_with_reads_step_by_step() -> None:
    async def scenario() -> None:
        seen_alive = seen_dead = 0
        for seed in range(30):
            world, random = MemoryWorld(), Random(seed)
            crowd = Crowd(world, random)
            observer = HubsStore(await world.store(), TREE)
            for _ in range(30):
                try:
                    await crowd.step()
                except EquipoiseError:
                    pass  # What a dead or half announced hub cannot do.
                if random.random() < 0.5:
                    continue
                found = await observer.load()
                assert found == await HubsStore(await world.store(), TREE).load(), f"seed {seed}"
                step_by_step = {name: await observer.look(name) for name in NAMES}
                assert found == {name: seen for name, seen in step_by_step.items() if seen}, f"seed {seed}"
                seen_alive += sum(seen.alive is not None for seen in found.values())
                seen_dead += sum(seen.alive is None for seen in found.values())
        assert min(seen_alive, seen_dead) > 100, "too little happened"

    run(scenario())


def test_unchanged_hubs_take_one_round_trip() -> None:
    async def scenario() -> None:
        world = MemoryWorld()
        for name in ("h1", "h2"):
            await HubsStore(await world.store(), TREE).announce(facts_of(name))
        await HubsStore(leaving := await world.store(), TREE).announce(facts_of("h3"))
        await leaving.close()
        store = await Counted(world.tree).open()
        observer = HubsStore(store, TREE)
        first = await observer.load()
        store.round_trips = 0
        assert await observer.load() == first
        assert store.round_trips == 1

    run(scenario())


def test_a_hub_that_changes_nodes_between_two_replies_is_read_again() -> None:
    # 1 the list says that `alive` counts; 2 the hub's next session takes its place, so the node is not there any more;
    # 3 to take that for a death would declare a hub dead that was alive all the while.
    look = HubLook(TREE, {"h1": ALIVE})
    assert look.conclude((("h1",), (ALIVE,), None)) == ({}, ["h1"])
    assert look.conclude((("h1",), (ALIVE_NEXT,), None)) == ({}, ["h1"])
    assert look.conclude((("h1",), None, None)) == ({"h1": None}, [])
    assert look.conclude(((), (ALIVE,), None)) == ({}, [])
    assert look.conclude((None, None, None)) == ({}, [])


def test_a_hub_that_has_died_since_is_not_alive_in_a_speculative_read() -> None:
    async def scenario() -> None:
        world = MemoryWorld()
        observer = HubsStore(await world.store(), TREE)
        await HubsStore(store := await world.store(), TREE).announce(facts_of("h1"))
        assert (await observer.load())["h1"].alive is not None
        await store.close()
        assert await observer.load() == {"h1": HubSeen(facts_of("h1"), None)}
        assert await observer.load() == {"h1": HubSeen(facts_of("h1"), None)}

    run(scenario())


def test_concurrent_reads_keep_their_guesses_apart() -> None:
    async def scenario() -> None:
        world = MemoryWorld()
        observer = HubsStore(await world.store(), TREE)
        early = observer.glance()
        await HubsStore(await world.store(), TREE).announce(facts_of("h1"))
        loaded, other = await asyncio.gather(observer.load(), observer.load())
        assert loaded == other
        store = await world.store()
        assert await observer.conclude(early, await store.read(early.reads)) == loaded

    run(scenario())
