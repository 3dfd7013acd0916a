"""The `equipoise` command and its list of sub-commands."""

from __future__ import annotations

from typing import Annotated

import typer

from equipoise import __version__
from equipoise.cli import (
    bench,
    controller,
    demo,
    doctor,
    hub,
    hubs,
    lake,
    load,
    move,
    pipeline,
    plan,
    pub,
    reference,
    replicate,
    reproduce,
    simulate,
    store,
    sub,
    topics,
    up,
    users,
)

app = typer.Typer(
    name="equipoise",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)


def _show_version(is_wanted: bool) -> None:
    if is_wanted:
        typer.echo(f"equipoise {__version__}")
        raise typer.Exit


@app.callback()
def equipoise(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Pub/sub that keeps every topic inside its latency and load limits. Any Redis client is a client."""


app.command("hub")(hub.command)
app.command("pub")(pub.command)
app.command("sub")(sub.command)
app.command("demo")(demo.command)
app.command("load")(load.command)
app.command("simulate")(simulate.command)
app.command("reproduce")(reproduce.command)
app.command("controller")(controller.command)
app.command("pipeline")(pipeline.command)
app.command("store")(store.command)
app.command("up")(up.command)
app.command("doctor")(doctor.command)
app.command("move")(move.command)
app.command("replicate")(replicate.command)
app.add_typer(hubs.app, name="hubs")
app.add_typer(topics.app, name="topics")
app.add_typer(plan.app, name="plan")
app.add_typer(bench.app, name="bench")
app.add_typer(lake.app, name="lake")
app.add_typer(users.app, name="users")
app.add_typer(reference.app, name="reference")


def main() -> None:
    app()


if __name__ == "__main__":
    main()
