"""`equipoise simulate`: run simulated worlds by seed, in virtual time, and check them."""

from __future__ import annotations

import time
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, TextIO

import typer
from rich.console import Console
from rich.table import Table

from equipoise.cli.support.failures import FAILED, exit_on_failure
from equipoise.cli.support.progress import progress_bar
from equipoise.cli.support.spark_options import Master
from equipoise.cli.support.tables import show_json
from equipoise.cli.support.units import parse_seeds
from equipoise.errors import SettingsError
from equipoise.lab.scenarios import SCENARIOS, scenario_by_name
from equipoise.lab.simulation import report
from equipoise.lab.simulation.campaign import ABLATIONS, ablation_by_name, run_campaign
from equipoise.lab.simulation.runner import run_seed
from equipoise.lab.task_pool import task_pool
from equipoise.profile.environment import commit

# Failures shown in full; a broken build fails everywhere in the same way.
FAILURES_SHOWN = 5
TABLE_WIDTH = 120


def command(
    case: Annotated[
        list[str] | None,
        typer.Option(help="Case to run; may be given several times. Default: all small cases."),
    ] = None,
    seeds: Annotated[str, typer.Option(help="Seeds FIRST..END, END excluded.")] = "0..100",
    jobs: Annotated[int, typer.Option(min=1, help="Number of processes.")] = 1,
    master: Master = "",
    replay: Annotated[int | None, typer.Option(min=0, help="Run one seed and print all details.")] = None,
    trace: Annotated[
        Path | None, typer.Option(help="With --replay and one --case: write all events to this file.")
    ] = None,
    without: Annotated[
        str, typer.Option(help="Switch off a safeguard, to see that a checker detects it; --list names them.")
    ] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
    list_: Annotated[bool, typer.Option("--list", help="List cases and safeguards and exit.")] = False,
) -> None:
    """Run hubs and clients in virtual time on a faulty network, and check their guarantees.

    A seed determines the whole run. The exit status is 0 if all seeds pass, 1 if one fails.
    """
    with exit_on_failure():
        if list_:
            _list(as_json=as_json)
            return
        cases = case or [name for name, scenario in SCENARIOS.items() if not scenario.is_large]
        wanted = parse_seeds(seeds) if replay is None else range(replay, replay + 1)
        tally, began = report.Tally(), time.perf_counter()
        if trace is not None:
            _run_traced(tally, cases, wanted, trace, without)
        else:
            _run_all(tally, cases, wanted, without, jobs=jobs, master=master)
        elapsed_s = time.perf_counter() - began
        source = commit()
        if as_json:
            typer.echo(report.to_json(tally, commit=source, elapsed_s=elapsed_s, without=without))
        else:
            _print_report(tally, source, elapsed_s, without, is_whole=replay is not None)
    if not tally.is_green:
        raise typer.Exit(FAILED)


def _run_all(
    tally: report.Tally, cases: list[str], seeds: range, without: str, *, jobs: int, master: str
) -> None:
    with (
        task_pool(master=master, jobs=jobs) as pool,
        progress_bar("seeds", len(cases) * len(seeds), "seeds") as bar,
    ):
        for done, run in enumerate(run_campaign(cases, seeds, pool=pool, without=without), 1):
            tally.add(run)
            bar(done, f"{run.case}, {len(tally.failures)} failed" if tally.failures else run.case)


def _run_traced(tally: report.Tally, cases: list[str], seeds: range, path: Path, without: str) -> None:
    if len(cases) != 1 or len(seeds) != 1:
        raise SettingsError("--trace writes the events of one run: give one --case and --replay SEED")
    switched = ablation_by_name(without).off() if without else nullcontext()
    with _open_trace(path) as sink, switched:
        tally.add(run_seed(scenario_by_name(cases[0]), seeds.start, trace_to=sink))


def _open_trace(path: Path) -> TextIO:
    try:
        return path.open("w")
    except OSError as problem:
        raise SettingsError(f"cannot write the trace to {path}: {problem.strerror}") from problem


def _print_report(
    tally: report.Tally, source: str, elapsed_s: float, without: str, *, is_whole: bool
) -> None:
    console = Console()
    if not console.is_terminal:
        console = Console(width=TABLE_WIDTH)
    for run in tally.failures[:FAILURES_SHOWN]:
        for line in report.failure_lines(run, commit=source, without=without):
            console.print(line, markup=False, highlight=False, soft_wrap=True)
    if len(tally.failures) > FAILURES_SHOWN:
        console.print(f"and {len(tally.failures) - FAILURES_SHOWN} more failures", highlight=False)
    if is_whole:
        for case, seed, is_green, trace_hash in tally.verdicts:
            verdict = "green" if is_green else "failed"
            console.print(f"{case} seed {seed}: {verdict}, trace hash {trace_hash}", highlight=False)
    console.print(report.tables(tally, elapsed_s=elapsed_s), highlight=False)


def _list(*, as_json: bool) -> None:
    if as_json:
        show_json(
            {
                "cases": [{"name": one.name, "summary": one.summary} for one in SCENARIOS.values()],
                "safeguards": [
                    {"name": one.name, "summary": one.summary, "breaks": one.property, "case": one.case}
                    for one in ABLATIONS.values()
                ],
            }
        )
        return
    console = Console()
    if not console.is_terminal:
        console = Console(width=TABLE_WIDTH)
    cases = Table("case", "summary")
    for scenario in SCENARIOS.values():
        cases.add_row(scenario.name, scenario.summary)
    console.print(cases)
    safeguards = Table("safeguard", "summary", "failing checker", "case")
    for ablation in ABLATIONS.values():
        safeguards.add_row(ablation.name, ablation.summary, ablation.property, ablation.case)
    console.print(safeguards)
