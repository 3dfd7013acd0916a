"""`equipoise bench`: benchmark the hub against Redis and NATS."""

from __future__ import annotations

import re
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from equipoise.errors import SettingsError
from equipoise.lab.bench import cases, driver, fanout, report
from equipoise.lab.bench.result import BenchResult, decode, encode

# The widest row: the longest label, three servers, two ratios with a range, goal and verdict.
TABLE_WIDTH = 120

app = typer.Typer(help="Benchmark the hub against Redis and NATS.", no_args_is_help=True)


@app.callback()
def bench() -> None:
    """Benchmark the hub against Redis and NATS."""


@app.command("fanout")
def run_fanout(
    against: Annotated[
        str, typer.Option(help="Other servers, separated by commas; empty: none.")
    ] = "redis,nats",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
    quick: Annotated[bool, typer.Option(help="Fewer cases, shorter runs: one minute.")] = False,
    fanouts: Annotated[str, typer.Option(help="Subscribers per topic.")] = "1,10,100,1000",
    payloads: Annotated[str, typer.Option(help="Payload sizes in bytes.")] = "100,1000",
    topics: Annotated[
        int, typer.Option(help="Topics in the interleaved cases; 0: skip them.")
    ] = cases.TOPICS,
    window: Annotated[
        int, typer.Option(min=1, help="Pipelined sends in flight, 50 publishes each.")
    ] = driver.WINDOW,
    only: Annotated[
        str, typer.Option(help="Run only cases whose name matches this regular expression.")
    ] = "",
    out: Annotated[Path | None, typer.Option(help="Folder for the dated JSON result.")] = None,
) -> None:
    """Measure CPU per delivery, throughput, latency and memory of hub, Redis and NATS under the same load,
    alternately.

    Each server is started on loopback and stopped again; one that is not installed is skipped. The exit status is 0
    whether or not the goals are met, and 1 if something could not be measured.
    """
    try:
        plan = cases.make_plan(
            fanouts=_numbers(fanouts), payloads_bytes=_numbers(payloads), topics=topics, is_quick=quick
        ).only(only)
        if not plan.size:
            raise SettingsError(f"no case has a name that matches {only!r}; leave out --only to see them all")
        names, skipped = fanout.choose([name for name in against.split(",") if name])
    except (SettingsError, re.error) as error:
        raise typer.BadParameter(str(error)) from error
    messages = Console(stderr=True)
    for name, reason in skipped.items():
        messages.print(f"{name} is skipped: {reason}", style="yellow", highlight=False)
    result = _run(plan, names, skipped, window=window, is_quick=quick, messages=messages)
    if out is not None:
        messages.print(f"kept in {keep(result, out)}", highlight=False)
    if as_json:
        typer.echo(encode(result), nl=False)
    else:
        _stdout().print(report.terminal(result))
    if result.failures or not result.rows:
        raise typer.Exit(1)


@app.command("render")
def render(
    result: Annotated[
        Path, typer.Argument(exists=True, dir_okay=False, help="JSON result of `bench fanout --out`.")
    ],
    into: Annotated[
        Path | None, typer.Option(help="Page whose tables to replace. Without it the tables are printed.")
    ] = None,
) -> None:
    """Write a JSON result as Markdown tables, into a page or to the terminal."""
    try:
        tables = report.markdown(decode(result.read_bytes()))
    except msgspec.DecodeError as error:
        raise typer.BadParameter(f"{result.name} is not a kept result: {error}") from error
    if into is None:
        typer.echo(tables, nl=False)
        return
    page = into.read_text() if into.exists() else ""
    into.parent.mkdir(parents=True, exist_ok=True)
    into.write_text(report.splice(page, tables))


def keep(result: BenchResult, folder: Path) -> Path:
    """Write the result under its date and commit."""
    folder.mkdir(parents=True, exist_ok=True)
    moment = re.sub(r"[^0-9T]", "", result.taken_at.partition("+")[0])
    path = folder / f"fanout-{moment}-{result.commit.rstrip('+')}.json"
    path.write_bytes(encode(result))
    return path


def _run(
    plan: cases.BenchPlan,
    names: list[str],
    skipped: dict[str, str],
    *,
    window: int,
    is_quick: bool,
    messages: Console,
) -> BenchResult:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    # No background refresh: a drawing thread would take the driver's time during a run.
    shown = Progress(*columns, console=messages, transient=True, auto_refresh=False)
    with shown if messages.is_terminal else nullcontext():
        task = shown.add_task("starting", total=plan.size)

        def progress(label: str, number: int) -> None:
            shown.update(task, description=label, completed=number, refresh=messages.is_terminal)

        return fanout.run(plan, names, skipped, window=window, is_quick=is_quick, progress=progress)


def _stdout() -> Console:
    """A console for the tables: as wide as the terminal, or wide enough for them in a file or a pipe."""
    console = Console()
    return console if console.is_terminal else Console(width=TABLE_WIDTH)


def _numbers(text: str) -> tuple[int, ...]:
    if not re.fullmatch(r"[1-9][0-9]{0,5}(,[1-9][0-9]{0,5})*", text):
        raise SettingsError(f"{text!r} is not a list of positive numbers such as 1,10,100")
    return tuple(int(part) for part in text.split(","))
