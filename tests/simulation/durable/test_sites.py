"""Closed ledgers follow their log to another site: with bounded bandwidth, whole, and only while needed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from equipoise.errors import LedgerError
from equipoise.lab.simulation.durable.world import (
    CLIENT_SETTINGS,
    STORE,
    STORE_PORT,
    TREE,
    keep_bookie,
    open_store,
)
from equipoise.lab.simulation.topology import Lan
from equipoise.lab.simulation.world import Simulation
from equipoise.ledger.quorum import Quorum
from equipoise.ledger_client.ledgers import BookieLedgers
from equipoise.store import MemoryStoreServer, MemoryTree

ENTRIES, ENTRY_BYTES = 20, 1_000
EAST, WEST = ("b1", "b2", "b3"), ("b4", "b5", "b6")


async def ledgers_at(sim: Simulation, site: str) -> BookieLedgers:
    ledgers = BookieLedgers(await open_store(), TREE, sim.random, site=site, settings=CLIENT_SETTINGS)
    await ledgers.start()
    return ledgers


async def closed_ledger(ledgers: BookieLedgers) -> int:
    made = await ledgers.create(b"t", 1, Quorum(3, 3, 2))
    stored: list[asyncio.Future[object]] = []
    for number in range(ENTRIES):
        stored.append(asyncio.get_running_loop().create_future())
        made.append(b"%d" % number * ENTRY_BYTES, stored[-1].set_result)
    outcomes = await asyncio.gather(*stored)
    assert not any(isinstance(outcome, LedgerError) for outcome in outcomes)
    await made.close()
    return made.ledger


def play(tell: Callable[[Simulation], Awaitable[None]]) -> None:
    with Simulation(seed=1, topology=Lan()) as sim:

        async def run() -> None:
            server = MemoryStoreServer(MemoryTree(sim.loop.time), host="0.0.0.0", port=STORE_PORT)
            sim.host(STORE).spawn(server.start())
            for name in (*EAST, *WEST):
                host = sim.host(name)
                host.disk.sync_s_min, host.disk.sync_s_max = 0.0005, 0.002
                site = "east" if name in EAST else "west"
                host.spawn(keep_bookie(name, host, {}, lambda fault: None, site), name=name)
            await asyncio.sleep(2.0)
            await sim.host("hub").spawn(tell(sim), name="hub")  # type: ignore[arg-type]  # a coroutine

        sim.run(run())


async def members(ledgers: BookieLedgers, ledger: int) -> set[str]:
    metadata, _ = await ledgers.records.load(ledger)
    return {name for segment in metadata.segments for name in segment.members}


def test_a_closed_ledger_is_copied_to_the_site_of_its_owner_slowly_and_survives_the_other_site() -> None:
    async def tell(sim: Simulation) -> None:
        east, west = await ledgers_at(sim, "east"), await ledgers_at(sim, "west")
        ledger = await closed_ledger(east)
        assert await members(west, ledger) == set(EAST)
        began_at = sim.now
        west.relocate([ledger], lambda: True)
        assert await sim.until(lambda: west.ledger_relocation.ledgers_relocated == 1, 60.0)
        assert await members(west, ledger) == set(WEST)
        assert west.ledger_relocation.bytes_copied >= 3 * ENTRIES * ENTRY_BYTES
        assert sim.now - began_at >= west.ledger_relocation.bytes_copied / CLIENT_SETTINGS.copy_bytes_per_s
        for name in EAST:
            sim.host(name).crash(silent=True)
        found = await west.read(ledger, 1, ENTRIES)
        assert found == [b"%d" % number * ENTRY_BYTES for number in range(ENTRIES)]
        await east.close()
        await west.close()

    play(tell)


def test_copying_ends_when_the_log_has_another_owner_and_waits_for_bookies_of_the_site() -> None:
    async def tell(sim: Simulation) -> None:
        east, west = await ledgers_at(sim, "east"), await ledgers_at(sim, "west")
        ledger = await closed_ledger(east)
        sim.host("b6").crash(silent=True)
        await sim.until(lambda: "b6" not in west.pool.known, 60.0)
        owned = [True]
        west.relocate([ledger], lambda: owned[0])
        await sim.until(lambda: west.ledger_relocation.bytes_copied >= 2 * ENTRIES * ENTRY_BYTES, 60.0)
        await asyncio.sleep(5.0)
        left = await members(west, ledger)
        assert len(left & set(EAST)) == 1
        assert {"b4", "b5"} < left
        owned[0] = False
        sim.host("b6").restart()
        await asyncio.sleep(10.0)
        assert await members(west, ledger) == left
        await east.close()
        await west.close()

    play(tell)
