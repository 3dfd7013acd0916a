"""`equipoise lake`: query and compact the pipeline's history."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from equipoise.cli.support.failures import exit_on_failure
from equipoise.cli.support.progress import progress_bar, working
from equipoise.cli.support.spark_options import Master
from equipoise.cli.support.tables import show_result
from equipoise.errors import SettingsError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from equipoise.pipeline.lake.lake import Lake

app = typer.Typer(help="Query and compact the pipeline's history (the lake).", no_args_is_help=True)

Folder = Annotated[
    Path, typer.Argument(help="Folder of the pipeline (its --dir).", exists=True, file_okay=False)
]


@app.callback()
def lake() -> None:
    """Query and compact the pipeline's history (the lake)."""


@app.command("summary")
def summary(
    directory: Folder,
    hours: Annotated[int, typer.Option(min=0, help="Number of latest hours; 0: all.")] = 24,
    top: Annotated[int, typer.Option(min=1, help="Number of topics, by bytes sent.")] = 20,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
    master: Master = "local[*]",
) -> None:
    """Summarise hubs and the busiest topics. Quantiles are at most 20 % too high."""
    with exit_on_failure(), _opened(directory, master) as (session, found):
        from equipoise.pipeline.lake.profiles import hub_profiles, lake_records, topic_profiles

        wanted = found.hours()[-hours:]
        records = lake_records(session, found, wanted).persist()
        topics = topic_profiles(records).orderBy("out_bytes", ascending=False).limit(top)
        facts = {
            "hours": wanted,
            "records": records.count(),
            "hubs": hub_profiles(records).orderBy("hub").toArrow().to_pylist(),
            "topics": [_named(row) for row in topics.toArrow().to_pylist()],
        }
    if as_json:
        typer.echo(json.dumps(facts, default=str))
    else:
        _show(facts)


@app.command("view")
def view(
    directory: Folder,
    at: Annotated[str, typer.Option(help="Time in UTC, such as 2026-11-15T12:00:00.")],
    top: Annotated[int, typer.Option(min=1, help="Number of topics, by bytes sent.")] = 20,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
    master: Master = "local[*]",
) -> None:
    """Show the view as the controller had it at a given time: the ten seconds before it."""
    with exit_on_failure(), _opened(directory, master) as (session, found):
        from equipoise.pipeline.batch import view_at
        from equipoise.pipeline.lake.profiles import lake_records
        from equipoise.pipeline.lake.writer import hour_folder

        end_us = int(_moment(at).timestamp() * 1e6)
        # Its ten seconds may have begun in the hour before.
        hours = {hour_folder(end_us), hour_folder(end_us - 10_000_000)}
        records = lake_records(session, found, sorted(hours & set(found.hours())))
        tables = view_at(records, end_us).tables
        topics = tables.topics.sort_by([("out_bytes_per_s", "descending")]).slice(0, top)
        facts = {
            "hubs": tables.hubs.sort_by("hub").to_pylist(),
            "topics": [_named(row) for row in topics.to_pylist()],
        }
    if as_json:
        typer.echo(json.dumps(facts, default=str))
    else:
        _tables(
            facts["hubs"],
            ("hub", "is_alive", "cpu_ratio", "loop_lag_s", "out_bytes_per_s", "connections"),
            "hubs",
        )
        numbers = ("publications_per_s", "deliveries_per_s", "out_bytes_per_s", "subscribers")
        _tables(facts["topics"], ("topic", *numbers), "topics")


@app.command("compact")
def compact(
    directory: Folder,
    retention_hours: Annotated[int, typer.Option(min=1, help="Hours to keep.")] = 168,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
    master: Master = "local[*]",
) -> None:
    """Merge small files into large ones, hour by hour, and delete expired ones.

    A running pipeline compacts its lake itself and locks it; use this command if the pipeline does not run.
    """
    with exit_on_failure(), _opened(directory, master, is_changed=True) as (session, found):
        from equipoise.pipeline.lake.compaction import keep
        from equipoise.pipeline.settings import KeepingSettings

        before = len(found.files())
        with progress_bar("compacting", before, "files") as bar:
            kept = keep(session, found, KeepingSettings(retention_h=retention_hours), is_all=True, tell=bar)
        after = len(found.files())
    show_result(
        {"files_before": before, "files": after, "merged": kept.merged, "expired": kept.expired},
        f"compacted {before} files into {after}: {kept.merged} merged, {kept.expired} expired",
        as_json=as_json,
    )


@contextmanager
def _opened(directory: Path, master: str, *, is_changed: bool = False) -> Iterator[tuple[SparkSession, Lake]]:
    """A Spark session and the lake, for the duration of the block; locked if it is changed."""
    from equipoise.pipeline.spark.spark_home import require_spark

    require_spark()
    # Here, so that only these commands load Spark.
    from equipoise.pipeline.lake.lake import Lake, held
    from equipoise.pipeline.settings import SessionSettings
    from equipoise.pipeline.spark.session import SparkDriver, address_towards

    found = Lake(directory.absolute() / "lake")
    if not found.hours():
        raise SettingsError(f"{directory} has no lake: give the --dir of a pipeline that keeps history")
    with ExitStack() as stack:
        if is_changed:
            stack.enter_context(held(found.folder, "equipoise lake compact", wait_s=0.0))
        tell = stack.enter_context(working("starting Spark …"))
        spark = SessionSettings(master=master, driver_host=address_towards(master), driver_memory_mib=1024)
        driver = SparkDriver.start(spark)
        stack.callback(driver.stop)
        tell(f"reading {len(found.hours())} hours of history …")
        yield driver.session, found


def _named(row: dict[str, Any]) -> dict[str, Any]:
    """Topic names are bytes; what is not UTF-8 is escaped."""
    return row | {"topic": row["topic"].decode("utf-8", "backslashreplace")}


def _show(facts: dict[str, Any]) -> None:
    Console().print(f"{facts['records']:,} records of {len(facts['hours'])} hours", highlight=False)
    load = ("covered_s", "lives", "publications", "deliveries", "cpu_ratio", "loop_lag_s_p99")
    _tables(facts["hubs"], ("hub", *load), "hubs")
    numbers = ("hubs", "publications", "deliveries", "out_bytes", "publications_per_s_p99")
    _tables(facts["topics"], ("topic", *numbers), "topics")


def _tables(rows: list[dict[str, Any]], columns: tuple[str, ...], title: str) -> None:
    table = Table(*columns, title=title, title_justify="left")
    for row in rows:
        table.add_row(*(_cell(row[column]) for column in columns))
    Console().print(table)


def _moment(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as problem:
        raise SettingsError(f"{text!r} is not a time: write 2026-11-15T12:00:00") from problem
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def _cell(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.3g}" if value < 1000 else f"{value:,.0f}"
    return f"{value:,}" if isinstance(value, int) else str(value)
