"""Hubs that start and die, and specs that are set and removed, as other processes see them."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import msgspec
import pytest

from equipoise.errors import ClosedError, NodeExistsError, NoNodeError, NotEmptyError
from equipoise.model import TopicSpec
from equipoise.store.records.hubs import HubAlive, HubFacts, HubsStore
from equipoise.store.records.specs import SpecsStore
from store.memory_world import TREE, MemoryWorld, run


def facts_of(hub: str, incarnation: int = 1) -> HubFacts:
    return HubFacts(hub=hub, address=f"{hub}.example:6399", incarnation=incarnation, site="paris")


async def alive_now(hubs: HubsStore) -> set[str]:
    return {name for name, seen in (await hubs.load()).items() if seen.alive is not None}


def test_a_hub_that_announces_itself_is_seen_with_its_facts_and_load() -> None:
    async def scenario() -> None:
        world = MemoryWorld()
        hub, observer = HubsStore(await world.store(), TREE), HubsStore(await world.store(), TREE)
        assert await observer.load() == {}
        await hub.announce(facts_of("h/1"), load_ratio=0.25)
        seen = (await observer.load())["h/1"]
        assert seen.facts == facts_of("h/1")
        assert seen.alive == HubAlive(facts=facts_of("h/1"), load_ratio=0.25)
        await hub.report(facts_of("h/1"), load_ratio=0.75)
        alive = (await observer.load())["h/1"].alive
        assert alive is not None
        assert alive.load_ratio == 0.75

    run(scenario())


def test_a_dead_hub_keeps_its_facts_until_it_is_removed() -> None:
    async def scenario() -> None:
        world = MemoryWorld()
        hub, observer = HubsStore(await world.store(), TREE), HubsStore(await world.store(), TREE)
        await hub.announce(facts_of("h1"))
        with pytest.raises(NotEmptyError):
            await observer.forget("h1")
        await hub.withdraw("h1")
        await hub.withdraw("h1")
        assert (await observer.load())["h1"].alive is None
        with pytest.raises(NoNodeError):
            await hub.report(facts_of("h1"), load_ratio=0.5)
        await observer.forget("h1")
        assert await observer.load() == {}

    run(scenario())


def test_a_hub_replaces_a_process_that_is_known_to_have_ended() -> None:
    """1. h1 is killed. 2. Its session remains in the store. 3. Its successor proves its end, and does not wait."""

    async def scenario() -> None:
        world = MemoryWorld()
        gone: set[str] = set()
        first, second = await world.store(), await world.store()
        await HubsStore(first, TREE).announce(msgspec.structs.replace(facts_of("h1", 1), process="m/1/10"))
        successor = HubsStore(second, TREE, is_gone=gone.__contains__)
        again = msgspec.structs.replace(facts_of("h1", 2), process="m/2/20")
        with pytest.raises(NodeExistsError):
            await successor.announce(again, patience_s=0.01)
        gone.add("m/1/10")
        node = await successor.announce(again, patience_s=0.01)
        assert node.owner == second.session
        seen = (await successor.load())["h1"]
        assert seen.alive is not None
        assert seen.facts.incarnation == 2

    run(scenario())


def test_a_hub_announces_itself_again_in_its_next_session() -> None:
    async def scenario() -> None:
        world = MemoryWorld()
        store = await world.store()
        hub, observer = HubsStore(store, TREE), HubsStore(await world.store(), TREE)
        first = await hub.announce(facts_of("h1"))
        world.tree.end_session(store.session)
        assert await alive_now(observer) == set()
        again = await hub.announce(facts_of("h1"))
        assert again.created_id > first.created_id
        assert (await hub.announce(facts_of("h1"), load_ratio=0.5)).created_id == again.created_id

    run(scenario())


def test_a_second_process_under_a_name_waits_for_the_first_to_end() -> None:
    async def scenario() -> None:
        world = MemoryWorld()
        old_store = await world.store()
        old, new = HubsStore(old_store, TREE), HubsStore(await world.store(), TREE)
        await old.announce(facts_of("h1", 1))
        with pytest.raises(NodeExistsError):
            await new.announce(facts_of("h1", 2), patience_s=0.01)
        assert (await new.load())["h1"].facts.incarnation == 1
        waiting = asyncio.create_task(new.announce(facts_of("h1", 2)))
        await asyncio.sleep(0)
        await old_store.close()
        await waiting
        seen = (await new.load())["h1"]
        assert (seen.facts.incarnation, seen.alive is not None) == (2, True)

    run(scenario())


def test_a_hub_whose_session_ended_takes_its_node_over_and_is_never_missed() -> None:
    async def scenario() -> None:
        world = MemoryWorld()
        observer = HubsStore(await world.store(), TREE)
        first = await HubsStore(await world.store(), TREE).announce(facts_of("h1"))
        gaps: list[int] = []

        def look(path: str) -> None:
            # At every single step of the store's history.
            names = world.tree.children(TREE.hub("h1"))
            if not names:
                gaps.append(len(world.steps))

        world.on_step = look
        # The next session of the same life, while the last one has not ended.
        again = HubsStore(await world.store(), TREE)
        node = await again.announce(facts_of("h1"), since_id=first.created_id)
        assert gaps == []
        assert len(world.steps) > 3
        seen = (await observer.load())["h1"]
        assert (seen.since_id, seen.created_id) == (first.created_id, node.created_id)
        assert world.tree.children(TREE.hub("h1")) == ("alive",)

    run(scenario())


def test_a_next_incarnation_in_the_same_session_has_a_node_of_its_own() -> None:
    async def scenario() -> None:
        world = MemoryWorld()
        hubs = HubsStore(await world.store(), TREE)
        first = await hubs.announce(facts_of("h1", 1))
        second = await hubs.announce(facts_of("h1", 2))
        assert second.created_id > first.created_id
        assert (await hubs.load())["h1"].since_id == second.created_id

    run(scenario())


def test_a_hub_between_two_nodes_is_alive() -> None:
    async def scenario() -> None:
        world = MemoryWorld()
        store = await world.store()
        hubs = HubsStore(store, TREE)
        await hubs.announce(facts_of("h1"))
        data = (await store.get(TREE.alive("h1"))).data
        await store.create(TREE.alive_next("h1"), data, ephemeral=True)
        await hubs.withdraw("h1")
        assert await alive_now(hubs) == {"h1"}

    run(scenario())


def test_watchers_see_hubs_start_die_and_move_but_not_their_load() -> None:
    async def scenario() -> None:
        world = MemoryWorld()
        one_store = await world.store()
        one, other = HubsStore(one_store, TREE), HubsStore(await world.store(), TREE)
        async with aclosing(HubsStore(await world.store(), TREE).watch()) as changes:

            async def until(names: set[str], incarnation: int = 1) -> None:
                async for hubs in changes:
                    lives = {name for name, seen in hubs.items() if seen.alive is not None}
                    if lives == names and all(hubs[name].facts.incarnation >= incarnation for name in names):
                        return

            await until(set())
            await one.announce(facts_of("h1"))
            await until({"h1"})
            await other.announce(facts_of("h2"))
            await until({"h1", "h2"})
            await one_store.close()
            await until({"h2"})
            await other.announce(facts_of("h2", 2))
            await until({"h2"}, incarnation=2)

            quiet = asyncio.ensure_future(anext(changes))
            await other.report(facts_of("h2", 2), load_ratio=0.9)
            done, _ = await asyncio.wait([quiet], timeout=0.05)
            assert not done
            await other.withdraw("h2")
            assert (await quiet)["h2"].alive is None

    run(scenario())


def test_a_watcher_of_a_closed_store_gets_an_error() -> None:
    async def scenario() -> None:
        store = await MemoryWorld().store()
        async with aclosing(HubsStore(store, TREE).watch()) as changes:
            await anext(changes)
            await store.close()
            with pytest.raises(ClosedError):
                await anext(changes)

    run(scenario())


def test_specs_are_kept_by_pattern() -> None:
    async def scenario() -> None:
        world = MemoryWorld()
        specs, observer = SpecsStore(await world.store(), TREE), SpecsStore(await world.store(), TREE)
        assert len(await observer.load()) == 0
        await specs.put(TopicSpec(pattern=b"a/*", latency_ms=40))
        await specs.put(TopicSpec(pattern=b"a/*", latency_ms=50))
        await specs.put(TopicSpec(pattern=b"\xff", site="paris"))
        assert await observer.get(b"a/*") == TopicSpec(pattern=b"a/*", latency_ms=50)
        found = (await observer.load()).of(b"\xff")
        assert found is not None
        assert found.site == "paris"
        assert await specs.remove(b"a/*")
        assert not await specs.remove(b"a/*")
        assert await observer.get(b"a/*") is None

    run(scenario())


def test_a_spec_that_cannot_be_read_does_not_hide_the_others() -> None:
    async def scenario() -> None:
        world = MemoryWorld()
        specs = SpecsStore(await world.store(), TREE)
        for pattern in (b"a", b"b"):
            await specs.put(TopicSpec(pattern=pattern))
        world.overwrite(TREE.spec(b"a"), b"\xc1")
        assert [spec.pattern for spec in await specs.load()] == [b"b"]

    run(scenario())


def test_the_version_of_the_specs_counts_changes_and_nothing_else() -> None:
    async def scenario() -> None:
        world = MemoryWorld()
        specs, observer = SpecsStore(await world.store(), TREE), SpecsStore(await world.store(), TREE)
        assert await observer.version() == 0
        await specs.put(TopicSpec(pattern=b"a", latency_ms=40))
        await specs.put(TopicSpec(pattern=b"b", latency_ms=40))
        assert (await observer.load_with_version()).version == 2
        # Setting the same spec is no change; nor is removing a missing one.
        await specs.put(TopicSpec(pattern=b"b", latency_ms=40))
        assert not await specs.remove(b"c")
        assert await observer.version() == 2
        assert await specs.remove(b"b")
        found = await observer.load_with_version()
        assert found.version == 3
        assert [spec.pattern for spec in found.specs] == [b"a"]

    run(scenario())


def test_watchers_see_specs_change() -> None:
    async def scenario() -> None:
        world = MemoryWorld()
        specs = SpecsStore(await world.store(), TREE)
        async with aclosing(SpecsStore(await world.store(), TREE).watch()) as changes:

            async def until(latencies: list[float | None]) -> None:
                async for found in changes:
                    if [spec.latency_ms for spec in found] == latencies:
                        return

            await until([])
            await specs.put(TopicSpec(pattern=b"a", latency_ms=40))
            await until([40])
            await specs.put(TopicSpec(pattern=b"a", latency_ms=50))
            await until([50])
            await specs.remove(b"a")
            await until([])

    run(scenario())
