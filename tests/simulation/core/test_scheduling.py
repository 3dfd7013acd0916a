"""Virtual time, the order of turns, and the ways a simulation can fail to end."""

from __future__ import annotations

import asyncio
import itertools
import time

import pytest

from equipoise.errors import DeadlockError, RunawayError, SimulationError
from equipoise.lab.simulation import Simulation
from simulation.core.parts import join


async def _sleep(seconds: float) -> None:
    await asyncio.sleep(seconds)


async def _forever() -> None:
    await asyncio.Event().wait()


def test_a_day_passes_in_no_time() -> None:
    before = time.perf_counter()
    with Simulation() as sim:
        sim.run(_sleep(86_400))
        assert sim.now == 86_400
    assert time.perf_counter() - before < 60


def test_time_goes_on_from_one_run_to_the_next() -> None:
    with Simulation() as sim:
        sim.run(_sleep(1.5))
        sim.run(_sleep(2.5))
        assert sim.now == 4.0


def test_hosts_that_are_ready_at_once_take_turns_in_an_order_drawn_from_the_seed() -> None:
    def order(seed: int) -> tuple[str, ...]:
        turns: list[str] = []

        async def take_turn(name: str) -> None:
            await asyncio.sleep(1)
            turns.append(name)

        with Simulation(seed) as sim:
            for name in "abc":
                sim.host(name).spawn(take_turn(name))
            sim.run(_sleep(2))
        return tuple(turns)

    orders = {order(seed) for seed in range(60)}
    assert orders == set(itertools.permutations("abc"))


def test_callbacks_of_one_host_run_in_the_order_asyncio_promises() -> None:
    for seed in range(20):
        ran: list[int] = []

        async def schedule(ran: list[int] = ran) -> None:
            for number in range(10):
                asyncio.get_running_loop().call_soon(ran.append, number)

        with Simulation(seed) as sim:
            sim.host("a").spawn(schedule())
            sim.run(_sleep(1))
        assert ran == list(range(10))


def test_shuffling_draws_the_order_of_callbacks_from_the_seed() -> None:
    def order(seed: int) -> tuple[int, ...]:
        ran: list[int] = []

        async def schedule() -> None:
            for number in range(3):
                asyncio.get_running_loop().call_soon(ran.append, number)

        with Simulation(seed, shuffle=True) as sim:
            sim.host("a").spawn(schedule())
            sim.run(_sleep(1))
        return tuple(ran)

    assert {order(seed) for seed in range(60)} == set(itertools.permutations(range(3)))


def test_a_task_group_cancels_in_the_same_order_every_time() -> None:
    def order(seed: int) -> list[int]:
        cancelled: list[int] = []

        async def wait(number: int) -> None:
            try:
                await asyncio.sleep(100)
            finally:
                cancelled.append(number)

        async def main() -> None:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(wait(number)) for number in range(30)]
                await asyncio.sleep(1)
                assert len(tasks) == 30
                raise LookupError("on purpose")

        with Simulation(seed) as sim, pytest.raises(ExceptionGroup):
            sim.run(main())
        return cancelled

    assert order(1) == order(1)


def test_waiting_for_what_can_never_happen_is_a_deadlock_that_names_the_waiters() -> None:
    async def main() -> None:
        await asyncio.sleep(2)
        await _forever()

    with Simulation() as sim:
        sim.host("idle").spawn(_forever(), name="watcher")
        with pytest.raises(DeadlockError, match=r"(?s)after 2\.0.*watcher on idle.*main on observer"):
            sim.run(main())


def test_a_program_that_never_ends_meets_the_cap_on_virtual_time() -> None:
    async def tick() -> None:
        while True:  # noqa: ASYNC110  # endless on purpose
            await asyncio.sleep(1)

    with Simulation(time_s_max=100) as sim:
        with pytest.raises(RunawayError, match="cap of 100 s"):
            sim.run(tick())
        assert sim.now == 100


def test_a_program_that_spins_meets_the_cap_on_steps_though_time_stands_still() -> None:
    async def spin() -> None:
        while True:  # noqa: ASYNC110  # endless on purpose
            await asyncio.sleep(0)

    with Simulation(steps_max=50_000) as sim:
        with pytest.raises(RunawayError, match="50000 steps"):
            sim.run(spin())
        assert sim.now == 0


def test_hosts_that_keep_each_other_busy_meet_the_cap_on_steps_too() -> None:
    async def main(sim: Simulation) -> None:
        events = {name: asyncio.Event() for name in "ab"}

        async def bounce(mine: asyncio.Event, other: asyncio.Event) -> None:
            while True:
                await mine.wait()
                mine.clear()
                other.set()

        sim.host("a").spawn(bounce(events["a"], events["b"]))
        sim.host("b").spawn(bounce(events["b"], events["a"]))
        events["a"].set()
        await _forever()

    with Simulation(steps_max=10_000) as sim, pytest.raises(RunawayError):
        sim.run(main(sim))


def test_a_spinning_host_lets_the_others_go_on() -> None:
    async def main() -> None:
        done = asyncio.Event()

        async def spin_until_done() -> None:
            while not done.is_set():  # noqa: ASYNC110  # spinning is the point
                await asyncio.sleep(0)

        async def finish() -> None:
            done.set()

        tasks = [sim.host("spinner").spawn(spin_until_done()), sim.host("other").spawn(finish())]
        await asyncio.gather(*tasks)

    for seed in range(5):
        with Simulation(seed) as sim:
            sim.run(main())


def test_what_main_raises_comes_out_of_run() -> None:
    async def main() -> None:
        raise LookupError("on purpose")

    with Simulation() as sim, pytest.raises(LookupError, match="on purpose"):
        sim.run(main())


def test_a_spawned_task_that_fails_unseen_fails_the_run() -> None:
    async def fail() -> None:
        raise LookupError("unobserved")

    with Simulation() as sim:
        kept = sim.host("a").spawn(fail())
        with pytest.raises(SimulationError, match="unobserved"):
            sim.run(_sleep(1))
        assert kept.done()


def test_the_failure_of_a_spawned_task_is_told_with_the_deadlock_it_caused() -> None:
    async def fail() -> None:
        raise LookupError("the cause")

    with Simulation() as sim:
        kept = sim.host("a").spawn(fail())
        with pytest.raises(DeadlockError) as caught:
            sim.run(_forever())
        assert any("the cause" in note for note in caught.value.__notes__)
        assert kept.done()


def test_an_error_in_a_protocol_fails_the_run_unless_it_is_tolerated() -> None:
    async def main(sim: Simulation) -> None:
        near, far = await join(sim.host("a"), sim.host("b"))

        def fail(data: bytes) -> None:
            raise LookupError("in a callback")

        far.data_received = fail  # type: ignore[method-assign]  # a protocol that raises
        far.transport.set_protocol(far)
        near.transport.write(b"x")
        await asyncio.sleep(1)

    with Simulation() as sim, pytest.raises(SimulationError, match="in a callback"):
        sim.run(main(sim))
    with Simulation(is_strict=False) as sim:
        sim.run(main(sim))
        assert [type(context["exception"]) for context in sim.unhandled] == [LookupError]


def test_the_modules_random_numbers_repeat_inside_and_are_left_alone_outside() -> None:
    import random

    async def draw() -> float:
        return random.random()

    random.seed(99)
    expected = random.random()
    random.seed(99)
    drawn = []
    for _ in range(2):
        with Simulation(4) as sim:
            drawn.append(sim.run(draw()))
    assert drawn[0] == drawn[1]
    assert random.random() == expected
