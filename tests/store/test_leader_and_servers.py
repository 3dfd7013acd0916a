"""The leader, and the requested hubs."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import pytest

from equipoise.errors import DamagedError
from equipoise.store import LeaderFacts, LeaderStore, ServersStore, WantedServer
from store.memory_world import TREE, MemoryWorld, run


def test_the_first_to_claim_leads_until_its_session_ends_and_then_the_next_may() -> None:
    async def scenario() -> None:
        world = MemoryWorld()
        one_store = await world.store()
        one, two = LeaderStore(one_store, TREE), LeaderStore(await world.store(), TREE)
        assert await two.load() is None
        assert await one.claim(LeaderFacts(name="one", intake="127.0.0.1:1"))
        assert await one.claim(LeaderFacts(name="one"))
        assert not await two.claim(LeaderFacts(name="two"))
        found = await two.load()
        assert found is not None and (found.name, found.intake) == ("one", "127.0.0.1:1")
        await one_store.close()
        assert await two.claim(LeaderFacts(name="two"))

    run(scenario())


def test_a_leader_that_resigns_is_replaced_and_another_controller_cannot_resign_it() -> None:
    async def scenario() -> None:
        world = MemoryWorld()
        one, two = LeaderStore(await world.store(), TREE), LeaderStore(await world.store(), TREE)
        assert await one.claim(LeaderFacts(name="one"))
        await two.resign()
        assert not await two.claim(LeaderFacts(name="two"))
        await one.resign()
        await one.resign()
        assert await two.claim(LeaderFacts(name="two"))

    run(scenario())


def test_a_watcher_sees_every_leader() -> None:
    async def scenario() -> None:
        world = MemoryWorld()
        one, two = LeaderStore(await world.store(), TREE), LeaderStore(await world.store(), TREE)
        heard: list[str | None] = []

        async def listen() -> None:
            async with aclosing(two.watch()) as leaders:
                async for leader in leaders:
                    heard.append(None if leader is None else leader.name)

        task = asyncio.create_task(listen())
        await asyncio.sleep(0)
        await one.claim(LeaderFacts(name="one"))
        async with asyncio.timeout(10.0):
            while heard[-1:] != ["one"]:  # noqa: ASYNC110  the results are a list, not an event
                await asyncio.sleep(0)
        task.cancel()

    run(scenario())


def test_wanted_servers_are_added_and_removed_by_several_writers() -> None:
    async def scenario() -> None:
        world = MemoryWorld()
        one, two = ServersStore(await world.store(), TREE), ServersStore(await world.store(), TREE)
        assert await one.load() == {}
        await asyncio.gather(
            one.change(add=[WantedServer(hub="h3", site="paris")]), two.change(add=[WantedServer(hub="h4")])
        )
        assert await two.load() == {"h3": WantedServer(hub="h3", site="paris"), "h4": WantedServer(hub="h4")}
        await two.change(remove=["h3", "unknown"])
        assert list(await one.load()) == ["h4"]

    run(scenario())


def test_a_damaged_list_of_servers_is_reported_and_not_changed() -> None:
    async def scenario() -> None:
        world = MemoryWorld()
        store = await world.store()
        await store.ensure(TREE.root)
        await store.create(TREE.servers, b"\xc1")
        with pytest.raises(DamagedError):
            await ServersStore(store, TREE).change(add=[WantedServer(hub="h1")])
        assert (await store.get(TREE.servers)).data == b"\xc1"

    run(scenario())
