"""`equipoise reproduce`: run the papers' experiments and check their claims.

The experiments need numpy, 25 MB that a hub started by the same program must not load: they are imported when the
command runs.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from equipoise.cli.support.failures import exit_on_failure
from equipoise.cli.support.tables import show_json
from equipoise.errors import SettingsError

if TYPE_CHECKING:
    from equipoise.lab.experiments import Experiment, Result
    from equipoise.lab.experiments import Progress as Listener

TABLE_WIDTH = 120


def command(
    name: Annotated[
        str, typer.Argument(help="Experiment, or paper for all its experiments; --list names them.")
    ] = "",
    quick: Annotated[bool, typer.Option("--quick", help="Smaller size: at most two minutes.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
    out: Annotated[
        Path | None, typer.Option(help="Folder for the page, the figures and the JSON result.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of all randomness.")] = 1,
    list_: Annotated[bool, typer.Option("--list", help="List the experiments and exit.")] = False,
) -> None:
    """Run an experiment of one of the papers on the simulator, and check the paper's claims.

    The experiments run the real hubs and policies. The exit status is 0 whether or not the claims hold.
    """
    from equipoise.lab.experiments import EXPERIMENTS, experiments_by_name

    with exit_on_failure():
        if list_:
            _list(EXPERIMENTS.values(), as_json=as_json)
            return
        if not name:
            raise SettingsError(f"name an experiment: {', '.join(EXPERIMENTS)}; --list describes them")
        wanted = experiments_by_name(name)
        if as_json and len(wanted) > 1:
            raise SettingsError(f"--json prints one experiment: {', '.join(e.name for e in wanted)}")
        for experiment in wanted:
            _tell(_run(experiment, seed, is_quick=quick, out=out), as_json=as_json)


def _run(experiment: Experiment, seed: int, *, is_quick: bool, out: Path | None) -> Result:
    from equipoise.lab.experiments import Size
    from equipoise.lab.experiments.publish_results import keep, run

    with _progress(experiment.name) as progress:
        result = run(experiment, Size.QUICK if is_quick else Size.FULL, seed, progress)
    if out is not None:
        Console(stderr=True).print(f"written to {keep(result, out)}", highlight=False)
    return result


def _tell(result: Result, *, as_json: bool) -> None:
    from equipoise.lab.experiments import terminal, to_object

    if as_json:
        typer.echo(json.dumps(to_object(result), allow_nan=False))
    else:
        _stdout().print(terminal(result))


@contextmanager
def _progress(name: str) -> Iterator[Listener]:
    """A bar on a terminal, nothing elsewhere."""
    from equipoise.lab.experiments import silent

    console = Console(stderr=True)
    if not console.is_terminal:
        yield silent
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as shown:
        task = shown.add_task(name, total=1.0)

        def tell(label: str, done: float) -> None:
            shown.update(task, description=f"{name}: {label}", completed=done)

        yield tell


def _list(experiments: Iterable[Experiment], *, as_json: bool) -> None:
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
