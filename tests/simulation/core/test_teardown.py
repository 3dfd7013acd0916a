"""Closing a simulation is silent, quick, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import gc
import time
import weakref
from collections.abc import AsyncIterator
from contextlib import suppress

from equipoise.errors import DiskFailedError
from equipoise.lab.simulation import Simulation
from simulation.core.parts import Sink, join
from simulation.core.programs import run_seed


def test_nothing_of_a_closed_simulation_stays_alive() -> None:
    gc.collect()
    watched: list[weakref.ref[object]] = []
    for seed in range(3):
        with Simulation(seed) as sim:

            async def main(sim: Simulation = sim) -> None:
                near, far = await join(sim.host("a"), sim.host("b"))
                sim.host("c").spawn(asyncio.sleep(1000))
                near.transport.write(bytes(1_000_000))
                await asyncio.sleep(0.01)
                sim.host("b").crash()
                watched.extend(weakref.ref(end) for end in (near, far))

            sim.run(main())
            watched.append(weakref.ref(sim.loop))
            watched.append(weakref.ref(sim))
        del sim, main
    gc.collect()
    assert [reference() for reference in watched] == [None] * len(watched)


def test_many_seeds_do_not_grow_the_number_of_objects() -> None:
    for seed in range(5):
        run_seed(seed)
    gc.collect()
    before = len(gc.get_objects())
    for seed in range(15):
        run_seed(seed)
    gc.collect()
    assert len(gc.get_objects()) - before < 200


def test_closing_finds_finally_blocks_nothing_to_act_on() -> None:
    """A suspended coroutine can only be destroyed by running its `finally`: it must reach no other task."""
    outcomes: list[str] = []

    async def program(sim: Simulation) -> None:
        near, far = await join(sim.host("a"), sim.host("b"))
        file = sim.host("a").disk.open("log")
        try:
            await asyncio.sleep(1000)
        finally:
            near.transport.write(b"from the dead")
            near.transport.close()
            far.transport.abort()
            try:
                file.append(b"from the dead")
            except DiskFailedError:
                outcomes.append("disk refused")
            sim.loop.call_soon(outcomes.append, "callback ran")
            sim.loop.create_task(_never())

    async def _never() -> None:
        outcomes.append("task ran")

    with Simulation() as sim:
        sim.host("a").spawn(program(sim))
        sim.run(asyncio.sleep(1))
        before = sim.trace.digest()
    assert outcomes == ["disk refused"]
    assert sim.trace.digest() == before
    assert not sim.unhandled


def test_a_finally_that_awaits_or_never_ends_does_not_disturb_closing() -> None:
    async def stubborn() -> None:
        try:
            await asyncio.sleep(1000)
        finally:
            while True:
                try:
                    await asyncio.sleep(1000)
                except GeneratorExit:
                    await asyncio.sleep(0)
                    return

    async def numbers() -> AsyncIterator[int]:
        try:
            yield 1
            yield 2
        finally:
            await asyncio.sleep(1)

    async def half_way() -> None:
        async for _ in numbers():
            await asyncio.sleep(1000)

    with Simulation() as sim:
        sim.host("a").spawn(stubborn())
        sim.host("a").spawn(half_way())
        sim.run(asyncio.sleep(1))
    gc.collect()


def test_open_streams_and_servers_close_without_a_warning() -> None:
    async def serve() -> None:
        server = await asyncio.start_server(_idle, "0.0.0.0", 7000)
        await server.serve_forever()

    async def _idle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionResetError):
            await reader.read()
        writer.close()

    async def talk() -> None:
        reader, writer = await asyncio.open_connection("hub", 7000)
        writer.write(b"x")
        await reader.read()

    for crash in (False, True):
        with Simulation() as sim:
            sim.host("hub").spawn(serve())
            sim.host("a").spawn(talk())
            sim.run(asyncio.sleep(1))
            if crash:
                sim.host("a").crash()
                sim.run(asyncio.sleep(1))
        gc.collect()


def test_making_and_closing_a_simulation_takes_less_than_a_millisecond() -> None:
    def once() -> float:
        before = time.perf_counter()
        with Simulation() as sim:
            sim.host("a")
        return time.perf_counter() - before

    # The best of many: a busy machine may slow down any one of them.
    assert min(once() for _ in range(200)) < 0.001


def test_closing_twice_is_closing_once() -> None:
    sim = Simulation()
    sim.run(asyncio.sleep(1))
    sim.close()
    sim.close()
    assert sim.now == 1
    assert isinstance(Sink(), asyncio.Protocol)
