"""Addresses of stores."""

from __future__ import annotations

import asyncio

import pytest

from equipoise.errors import AddressError
from equipoise.store import MemoryStoreServer, MemoryTree, StoreSettings, open_store
from store.memory_world import run


@pytest.mark.parametrize(
    "url",
    [
        "",
        "zk://",
        "zk:/host",
        "zk://host:port",
        "zk://host,",
        "zk://host/a//b",
        "zk://host/../b",
        "eqs://host",
        "eqs://host:0",
        "eqs://host:70000",
        "memory:a/b",
        "redis://host:6379",
    ],
)
def test_an_invalid_address_is_rejected_with_the_valid_forms(url: str) -> None:
    with pytest.raises(AddressError):
        asyncio.run(_open(url))


async def _open(url: str) -> None:
    await open_store(url)


def test_stores_in_memory_are_shared_by_name() -> None:
    async def scenario() -> None:
        one, same, other = [await open_store(f"memory:{name}") for name in ("a", "a", "b")]
        await one.create("/x", b"1")
        assert await same.find("/x") is not None
        assert await other.find("/x") is None

    run(scenario())
    run(_has_nothing_left())


async def _has_nothing_left() -> None:
    assert await (await open_store("memory:a")).find("/x") is None


def test_a_served_store_is_found_by_host_and_port() -> None:
    async def scenario() -> None:
        server = MemoryStoreServer(MemoryTree(asyncio.get_running_loop().time))
        await server.start()
        store = await open_store(f"eqs://127.0.0.1:{server.port}", StoreSettings(session_timeout_s=2.0))
        await store.create("/x", b"1")
        assert server.tree.get("/x").data == b"1"
        await store.close()
        await server.stop()

    run(scenario())
