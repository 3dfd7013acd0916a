"""The clock that round trips are measured by, and waits with a limit."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from itertools import pairwise

import pytest
import uvloop

from equipoise.clock import clock_of, done_within
from equipoise.lab.simulation import Simulation


@pytest.mark.parametrize("make_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_on_a_real_loop_it_counts_the_loops_seconds_in_parts_of_a_millisecond(
    make_loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    async def main() -> None:
        now, deadline = clock_of(loop), time.perf_counter() + 5.0
        times = [now()]
        assert times[0] == pytest.approx(loop.time(), abs=0.5)
        while len(times) < 100:
            assert time.perf_counter() < deadline, "it stands still while nothing is awaited"
            if (read := now()) != times[-1]:
                times.append(read)
        assert min(later - earlier for earlier, later in pairwise(times)) < 0.0005

    loop = make_loop()
    try:
        loop.run_until_complete(main())
    finally:
        loop.close()


def test_on_a_simulated_loop_it_is_the_virtual_time() -> None:
    with Simulation(seed=1) as sim:

        async def main() -> None:
            now = clock_of(asyncio.get_running_loop())
            began_at = now()
            await asyncio.sleep(3_600.0)
            assert now() - began_at == pytest.approx(3_600.0)

        sim.run(main())


@pytest.mark.parametrize(("ends_at", "limit_s", "waited_s", "is_done"), [(2, 5, 2, True), (9, 5, 5, False)])
def test_a_wait_ends_with_the_future_or_with_the_time(
    ends_at: float, limit_s: float, waited_s: float, is_done: bool
) -> None:
    with Simulation(seed=1) as sim:

        async def main() -> None:
            loop = asyncio.get_running_loop()
            future: asyncio.Future[None] = loop.create_future()
            loop.call_at(ends_at, future.set_result, None)
            assert await done_within(future, limit_s) is is_done
            assert loop.time() == waited_s
            # The future is not cancelled, and a future that is done needs no wait.
            await future
            assert await done_within(future, limit_s)
            assert loop.time() == ends_at

        sim.run(main())


def test_a_wait_that_is_cancelled_leaves_the_future_alone() -> None:
    async def main() -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiting = asyncio.create_task(done_within(future, 60.0))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert not future.done()
        future.set_result(None)
        await asyncio.sleep(0)

    asyncio.run(main())
