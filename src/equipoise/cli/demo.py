"""`equipoise demo`: three hubs, publishers, subscribers, a topic that moves, and a live table of what they see."""

from __future__ import annotations

import asyncio
import logging
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.live import Live
from rich.table import Table

from equipoise.cli.failures import FAILED, exit_on_failure
from equipoise.demo import Mover, Row, play, publishing_rate, row_of
from equipoise.errors import StoreUnavailableError
from equipoise.local import Layout, System, SystemSettings
from equipoise.local.layout import HOST
from equipoise.scenarios import Scenario, scenario_by_name
from equipoise.simulation.checkers import CHECKERS, Violation
from equipoise.store import MemoryStoreServer, MemoryTree, open_store
from equipoise.workload import History

WINDOW_S = 2.0
HUBS = 3
# The one that is published to most.
TOPIC = b"match.clock"
READY_S = 60.0


def command(
    seconds: Annotated[float, typer.Option(min=1, help="How long to show it.")] = 20.0,
) -> None:
    """Show three hubs at work while a busy topic moves between them: who listens does not notice.

    Two publishers, eleven subscribers, half of them plain Redis clients, spread over the hubs. Ends by itself with a
    summary. Nothing is left running.
    """
    console = Console()
    logging.basicConfig(level=logging.ERROR)
    scenario = scenario_by_name("demo")
    with exit_on_failure():
        history, moves = asyncio.run(show(console, scenario, seconds))
    wrong = [problem for name in scenario.expectation.properties for problem in CHECKERS[name](history)]
    summarise(console, history, moves, wrong)
    if wrong:
        raise typer.Exit(FAILED)


async def show(console: Console, scenario: Scenario, seconds: float) -> tuple[History, int]:
    with tempfile.TemporaryDirectory(prefix="equipoise-demo-") as folder:
        console.print("Starting a store and three hubs …")
        async with started(Path(folder), console) as system:
            names = [f"hub-{number + 1}" for number in range(HUBS)]
            hubs = [(HOST, system.layout.known_port(name)) for name in names]
            console.print(
                f"Hubs listen on {', '.join(str(port) for _, port in hubs)}. "
                f"Look in: redis-cli -p {hubs[0][1]} psubscribe 'match.*'"
            )
            store = await open_store(system.store_url)
            mover = Mover(store, TOPIC, names)
            try:
                with Live(console=console, auto_refresh=False) as live:

                    def look(history: History, now: float) -> None:
                        live.update(render(history, now, mover), refresh=True)

                    history = await play(scenario, hubs=hubs, seconds=seconds, look=look, meanwhile=mover.run)
            finally:
                await store.close()
            return history, mover.moves


@asynccontextmanager
async def started(folder: Path, console: Console) -> AsyncIterator[System]:
    """Three hubs that have met in a ZooKeeper; without Java in a store that keeps nothing."""
    settings = SystemSettings(hubs=HUBS, has_controller=False, has_pipeline=False)
    try:
        async with System(Layout(folder), settings) as system:
            await until_ready(system)
            yield system
    except StoreUnavailableError as problem:
        console.print(f"No ZooKeeper: {problem}. A store in memory serves this time.", style="yellow")
        server = MemoryStoreServer(MemoryTree(asyncio.get_running_loop().time), host=HOST, port=0)
        await server.start()
        in_memory = SystemSettings(
            hubs=HUBS, has_controller=False, has_pipeline=False, store_url=f"eqs://{HOST}:{server.port}"
        )
        async with System(Layout(folder), in_memory) as system:
            await until_ready(system)
            yield system


async def until_ready(system: System) -> None:
    async with asyncio.timeout(READY_S):
        while not system.is_ready:  # noqa: ASYNC110  a state of several processes
            await asyncio.sleep(0.05)


def render(history: History, now: float, mover: Mover) -> Table:
    rate = publishing_rate(history, now, WINDOW_S)
    table = Table(
        title=f"{rate:,.0f} messages published per second; {TOPIC.decode()} lives at {mover.home}, "
        f"moved {mover.moves} times"
    )
    for heading in ("subscriber", "listens to"):
        table.add_column(heading, no_wrap=True)
    for heading in ("received", "per second", "p50 ms", "p99 ms", "missed"):
        table.add_column(heading, justify="right")
    for track in history.tracks:
        table.add_row(*cells(row_of(track, history, now, WINDOW_S)))
    return table


def cells(row: Row) -> list[str]:
    latencies = [
        "–" if latency is None else f"{latency:.1f}" for latency in (row.latency_ms_p50, row.latency_ms_p99)
    ]
    counts = [f"{row.received:,}", f"{row.received_per_s:,.0f}"]
    return [row.name, row.listens_to, *counts, *latencies, f"{row.missed:,}"]


def summarise(console: Console, history: History, moves: int, wrong: list[Violation]) -> None:
    console.print()
    verdict = "none lost, none twice, none out of order"
    if wrong:
        verdict = f"{len(wrong)} promises broken: " + "; ".join(str(problem) for problem in wrong[:5])
    console.print(
        f"{history.messages:,} messages published, {history.deliveries:,} delivered to "
        f"{len(history.tracks)} subscribers, while the busiest topic moved {moves} times: {verdict}."
    )
