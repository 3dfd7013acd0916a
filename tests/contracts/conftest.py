"""Run each test of the loop suites on asyncio's own loop, on uvloop and on the simulated one.

A test is a coroutine handed to `run`. All three must behave alike, so nothing in a test may depend on how
long a thing takes: it waits for what it expects, under one time-out of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
import uvloop

from equipoise.lab.simulation import Simulation

Run = Callable[[Coroutine[Any, Any, None]], None]

TIMEOUT_S = 20


async def _bounded(main: Coroutine[Any, Any, None]) -> None:
    async with asyncio.timeout(TIMEOUT_S):
        await main


def _run_asyncio(main: Coroutine[Any, Any, None]) -> None:
    asyncio.run(_bounded(main))


def _run_uvloop(main: Coroutine[Any, Any, None]) -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_bounded(main))


def _run_simulated(main: Coroutine[Any, Any, None]) -> None:
    with Simulation(seed=1) as sim:
        sim.run(_bounded(main))


def _run_simulated_with_splits(main: Coroutine[Any, Any, None]) -> None:
    with Simulation(seed=2, split=0.5, shuffle=True) as sim:
        sim.run(_bounded(main))


_RUNS: dict[str, Run] = {
    "asyncio": _run_asyncio,
    "uvloop": _run_uvloop,
    "simulated": _run_simulated,
    "simulated-split-and-shuffled": _run_simulated_with_splits,
}


@pytest.fixture(params=list(_RUNS))
def run(request: pytest.FixtureRequest) -> Run:
    """Run a coroutine to its end on one of the loops."""
    return _RUNS[request.param]
