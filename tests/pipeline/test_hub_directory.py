"""The hubs and the leader, read from a store."""

from __future__ import annotations

import asyncio

import pytest

from equipoise.errors import AddressError
from equipoise.pipeline.source.hub_directory import HubEntry, ListedHubs, StoreDirectory, open_directory
from equipoise.store import HubFacts, HubsStore, LeaderFacts, LeaderStore, MemoryStore, MemoryTree, Tree
from equipoise.store.backends.memory_server import MemoryStoreServer
from support.polling import until

TREE = Tree("test")


def facts(hub: str, port: int) -> HubFacts:
    return HubFacts(hub=hub, address=f"127.0.0.1:{port}", incarnation=1, site="paris", rack="r1")


def test_hubs_and_leader_are_followed_as_they_change() -> None:
    async def scenario() -> None:
        tree = MemoryTree(asyncio.get_running_loop().time)
        server = MemoryStoreServer(tree)
        await server.start()
        store = await MemoryStore(tree).open()
        hubs = HubsStore(store, TREE)
        await hubs.announce(facts("h1", 7001))
        directory = StoreDirectory(f"eqs://127.0.0.1:{server.port}", "test")
        assert await asyncio.to_thread(directory.hubs, 20.0) == {
            "h1": HubEntry("h1", "127.0.0.1", 7001, "paris", "r1", True)
        }
        assert directory.intake() is None
        await hubs.announce(facts("h2", 7002))
        await LeaderStore(store, TREE).claim(LeaderFacts(name="c1", intake="127.0.0.1:7100"))
        await until(lambda: len(directory.hubs(0.0) or {}) == 2)
        await until(lambda: directory.intake() is not None)
        leader = directory.intake()
        assert leader is not None
        assert leader.intake == "127.0.0.1:7100"
        await hubs.withdraw("h1")
        await until(lambda: not (directory.hubs(0.0) or {})["h1"].is_alive)
        # The store is lost: the last state remains.
        await server.stop()
        assert len(directory.hubs(0.0) or {}) == 2
        await asyncio.to_thread(directory.close)
        await store.close()

    asyncio.run(scenario())


def test_a_store_that_does_not_reply_is_waited_for_within_limits_and_then_found() -> None:
    async def scenario() -> None:
        tree = MemoryTree(asyncio.get_running_loop().time)
        server = MemoryStoreServer(tree)
        await server.start()
        port = server.port
        await server.stop()
        directory = StoreDirectory(f"eqs://127.0.0.1:{port}", "test")
        assert await asyncio.to_thread(directory.hubs, 0.05) is None
        server = MemoryStoreServer(tree, port=port)
        await server.start()
        assert await asyncio.to_thread(directory.hubs, 30.0) == {}
        await asyncio.to_thread(directory.close)
        await server.stop()

    asyncio.run(scenario())


def test_hubs_may_be_listed_by_hand() -> None:
    directory = open_directory("h1=127.0.0.1:7001, h2=[::1]:7002")
    assert isinstance(directory, ListedHubs)
    assert directory.hubs(0.0) == {
        "h1": HubEntry("h1", "127.0.0.1", 7001),
        "h2": HubEntry("h2", "::1", 7002),
    }
    assert directory.intake() is None


@pytest.mark.parametrize("text", ["h1", "h1=host", "h1=host:port", "=host:1", "h1:host:1"])
def test_an_invalid_list_is_rejected_with_the_expected_form(text: str) -> None:
    with pytest.raises(AddressError, match="write name=host:port"):
        open_directory(text)
