"""Bookies and their clients while the store does not reply: they continue, and follow the store again."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from equipoise.bookie.bookie import Bookie
from equipoise.errors import StoreUnavailableError
from equipoise.lab.simulation import Simulation
from equipoise.lab.simulation.durable.world import BOOKIE_PORT, BOOKIE_SETTINGS, keep_bookie, open_store
from equipoise.ledger.registration import BookieFacts
from equipoise.ledger_client.bookie_pool import BookiePool
from equipoise.store import MemoryStoreServer, MemoryTree, Tree
from equipoise.store.records.bookies import BookiesStore
from support.polling import until

STORE, PORT = "store", 2181
# Longer than a request may take.
LONG_S = 1.5
FACTS = BookieFacts(name="b1", host="b1", port=BOOKIE_PORT, rack="b1")


def play(name: str, sim: Simulation, story: Coroutine[Any, Any, None]) -> None:
    """Run a story on the host of that name, beside a store."""
    server = MemoryStoreServer(MemoryTree(sim.loop.time), host="0.0.0.0", port=PORT)
    sim.host(STORE).spawn(server.start())

    async def run() -> None:
        await sim.host(name).spawn(story)

    sim.run(run())


def test_a_bookie_whose_registration_fails_is_started_again_on_its_port(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """1. It binds its port. 2. The store does not take the registration. 3. The next start binds the port again."""
    register, attempts = BookiesStore.register, 0

    async def fails_once(bookies: BookiesStore, facts: BookieFacts) -> None:
        nonlocal attempts
        attempts += 1
        if attempts == 1:
            raise StoreUnavailableError("the store did not answer")
        await register(bookies, facts)

    monkeypatch.setattr(BookiesStore, "register", fails_once)
    with Simulation() as sim:
        host = sim.host("b1")

        async def story() -> None:
            keeping = asyncio.create_task(keep_bookie("b1", host, {}, lambda fault: None))
            await asyncio.sleep(1.0)
            store = await open_store()
            assert await BookiesStore(store).load()
            pool = BookiePool(BookiesStore(store))
            await pool.start()
            assert (await pool.link("b1")).is_open
            await pool.close()
            await store.close()
            keeping.cancel()
            await asyncio.gather(keeping, return_exceptions=True)

        play("b1", sim, story())
    assert attempts > 1


def test_a_bookie_that_starts_as_the_store_is_lost_runs_and_is_drained_later() -> None:
    with Simulation() as sim:
        host = sim.host("b1")

        async def story() -> None:
            store = await open_store()
            bookie = Bookie(FACTS, host.disk, store, Tree(), host.random, BOOKIE_SETTINGS)
            await bookie.start(listen_host="0.0.0.0")
            sim.cut("b1", STORE)
            running = asyncio.create_task(bookie.run())
            await asyncio.sleep(LONG_S)
            assert not running.done()
            sim.heal("b1", STORE)
            await BookiesStore(store).set_draining("b1", is_draining=True)
            await until(lambda: bookie.server.engine.is_draining)
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            await store.close()

        play("b1", sim, story())


def test_a_client_that_starts_as_the_store_is_lost_learns_of_later_bookies() -> None:
    with Simulation() as sim:

        async def story() -> None:
            store = await open_store()
            bookies = BookiesStore(store)
            pool = BookiePool(bookies)
            await pool.start()
            sim.cut("client", STORE)
            await asyncio.sleep(LONG_S)
            sim.heal("client", STORE)
            await store.ensure(f"{Tree().ledgers}/available/readonly")
            await bookies.register(FACTS)
            await until(lambda: "b1" in pool.known)
            await pool.close()
            await store.close()

        play("client", sim, story())
