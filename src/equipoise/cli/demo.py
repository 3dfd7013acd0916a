"""`equipoise demo`: a hub, publishers, subscribers, and a live table of rates and latencies."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer
from rich.console import Console
from rich.live import Live
from rich.table import Table

from equipoise.bench.servers import HOST, KINDS, running
from equipoise.cli.failures import FAILED, exit_on_failure
from equipoise.demo import Row, play, publishing_rate, row_of
from equipoise.scenarios import scenario_by_name
from equipoise.simulation.checkers import CHECKERS, Violation
from equipoise.workload import History

WINDOW_S = 2.0


def command(
    seconds: Annotated[float, typer.Option(min=1, help="How long to show it.")] = 15.0,
) -> None:
    """Show a hub at work: two publishers, eleven subscribers, half of them plain Redis clients.

    Ends by itself with a summary. Nothing is left running.
    """
    console = Console()
    scenario = scenario_by_name("demo")
    with exit_on_failure(), running(KINDS["hub"]) as hub, Live(console=console, auto_refresh=False) as live:
        console.print(
            f"A hub listens on {HOST}:{hub.port}. Look in: redis-cli -p {hub.port} psubscribe 'match.*'"
        )

        def look(history: History, now: float) -> None:
            live.update(render(history, now), refresh=True)

        history = asyncio.run(play(scenario, host=HOST, port=hub.port, seconds=seconds, look=look))
    wrong = [problem for name in scenario.expectation.properties for problem in CHECKERS[name](history)]
    summarise(console, history, wrong)
    if wrong:
        raise typer.Exit(FAILED)


def render(history: History, now: float) -> Table:
    rate = publishing_rate(history, now, WINDOW_S)
    table = Table(title=f"{rate:,.0f} messages published per second")
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


def summarise(console: Console, history: History, wrong: list[Violation]) -> None:
    console.print()
    verdict = "none lost, none twice, none out of order"
    if wrong:
        verdict = f"{len(wrong)} promises broken: " + "; ".join(str(problem) for problem in wrong[:5])
    console.print(
        f"{history.messages:,} messages published, {history.deliveries:,} delivered to "
        f"{len(history.tracks)} subscribers: {verdict}."
    )
