"""The clock that round trips are measured by."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from itertools import pairwise

import pytest
import uvloop

from equipoise.clock import clock_of
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
