"""`equipoise reproduce`: run the papers' experiments and check their claims.

The experiments need numpy, 25 MB that a hub started by the same program must not load: they are imported when the
command runs.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from equipoise.cli.support.failures import FAILED, exit_on_failure
from equipoise.cli.support.progress import progress_bar
from equipoise.cli.support.spark_options import Master
from equipoise.cli.support.tables import show_json
from equipoise.cli.support.units import parse_seeds
from equipoise.errors import SettingsError

if TYPE_CHECKING:
    from equipoise.lab.experiments import Experiment, Result
    from equipoise.lab.task_pool import TaskPool

TABLE_WIDTH = 120


def command(
    name: Annotated[
        str, typer.Argument(help="Experiment, or paper for all its experiments; --list names them.")
    ] = "",
    quick: Annotated[
        bool, typer.Option("--quick", help="Smaller size; --list shows the duration of each.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
    out: Annotated[
        Path | None, typer.Option(help="Folder for the page, the figures and the JSON result.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of all randomness.")] = 1,
    seeds: Annotated[
        str,
        typer.Option(
            help="Run with each seed of FIRST..END, END excluded, and check every claim over all of them."
        ),
    ] = "",
    resume: Annotated[
        Path | None,
        typer.Option(
            help="With --seeds: folder for the result of each seed, to resume after an interruption."
        ),
    ] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Number of processes.")] = 1,
    master: Master = "",
    check: Annotated[
        Path | None,
        typer.Option(
            help="Run the quick size of all experiments, or of those named, and compare verdicts with the results kept "
            "in this folder. The exit status is 1 if a claim that held does not."
        ),
    ] = None,
    list_: Annotated[bool, typer.Option("--list", help="List the experiments and exit.")] = False,
) -> None:
    """Run an experiment of one of the papers on the simulator, and check the paper's claims.

    The experiments run the real hubs and policies. Points of a sweep and the seeds of --seeds are independent of each
    other: they run in --jobs processes or on the Spark of --master, with the same result. The exit status is 0 whether
    or not the claims hold, but for --check.
    """
    from equipoise.lab.experiments import EXPERIMENTS, experiments_by_name
    from equipoise.lab.task_pool import task_pool

    with exit_on_failure():
        if list_:
            _list(EXPERIMENTS.values(), as_json=as_json)
            return
        if check is not None:
            with task_pool(master=master, jobs=jobs) as pool:
                _check(name, check, pool, as_json=as_json)
            return
        if not name:
            raise SettingsError(f"name an experiment: {', '.join(EXPERIMENTS)}; --list describes them")
        if resume is not None and not seeds:
            raise SettingsError("--resume is for --seeds: one seed is run as a whole")
        wanted = experiments_by_name(name)
        if as_json and len(wanted) > 1:
            raise SettingsError(f"--json prints one experiment: {', '.join(e.name for e in wanted)}")
        many = parse_seeds(seeds) if seeds else None
        with task_pool(master=master, jobs=jobs) as pool:
            for experiment in wanted:
                if many is None:
                    result = _run(experiment, seed, is_quick=quick)
                else:
                    result = _run_seeds(experiment, many, pool, is_quick=quick, resume=resume)
                _keep(result, out)
                _tell(result, as_json=as_json)


def _run(experiment: Experiment[Any, Any], seed: int, *, is_quick: bool) -> Result:
    from equipoise.lab.experiments import Size, run

    with progress_bar(experiment.name, 1.0) as bar:

        def tell(label: str, done: float) -> None:
            bar(done, f"{experiment.name}: {label}")

        return run(experiment, Size.QUICK if is_quick else Size.FULL, seed, tell)


def _run_seeds(
    experiment: Experiment[Any, Any], seeds: range, pool: TaskPool, *, is_quick: bool, resume: Path | None
) -> Result:
    from equipoise.lab.experiments import Size
    from equipoise.lab.experiments.seed_campaign import over_seeds, run_seeds

    size = Size.QUICK if is_quick else Size.FULL
    with progress_bar(experiment.name, len(seeds), "seeds") as bar:
        return over_seeds(run_seeds(experiment, size, seeds, pool, folder=resume, tell=bar))


def _keep(result: Result, out: Path | None) -> None:
    from equipoise.lab.experiments.report import MARKER, keep
    from equipoise.lab.experiments.scoreboard import kept_results, scoreboard

    if out is None:
        return
    Console(stderr=True).print(f"written to {keep(result, out)}", highlight=False)
    board = out / "README.md"
    head = board.read_text().partition(MARKER)[0].rstrip() if board.exists() else "# Scoreboard"
    board.write_text(f"{head}\n\n{MARKER}\n\n{scoreboard(list(kept_results(out)))}")


def _check(name: str, folder: Path, pool: TaskPool, *, as_json: bool) -> None:
    from equipoise.lab.experiments import EXPERIMENTS, experiments_by_name
    from equipoise.lab.experiments.scoreboard import check

    wanted = experiments_by_name(name) if name else list(EXPERIMENTS.values())
    with progress_bar("checking", len(wanted), "experiments") as bar:
        broken = check(wanted, folder, pool, bar)
    if as_json:
        show_json([one._asdict() for one in broken])
    for one in broken if not as_json else ():
        typer.echo(f"{one.experiment}: {one.claim}: kept {one.kept}, now {one.now}")
    if broken:
        raise typer.Exit(FAILED)


def _tell(result: Result, *, as_json: bool) -> None:
    from equipoise.lab.experiments import terminal, to_object

    if as_json:
        typer.echo(json.dumps(to_object(result), allow_nan=False))
    else:
        _stdout().print(terminal(result))


def _list(experiments: Iterable[Experiment[Any, Any]], *, as_json: bool) -> None:
    if as_json:
        show_json([{"name": one.name, "from": one.source, "summary": one.summary} for one in experiments])
        return
    table = Table("experiment", "from", "what it shows", "quick", "full")
    for experiment in experiments:
        table.add_row(experiment.name, experiment.source, experiment.summary, *experiment.takes)
    _stdout().print(table)


def _stdout() -> Console:
    console = Console()
    return console if console.is_terminal else Console(width=TABLE_WIDTH)
