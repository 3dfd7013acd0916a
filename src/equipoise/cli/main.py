"""The `equipoise` command and its list of sub-commands.

A command that is named is loaded alone: a hub does not wait for what the simulator needs.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from importlib import import_module
from typing import Annotated

import typer

from equipoise import __version__

# In the order in which help lists them. Each has a module of its name in this folder: with `command`, or with `app` if
# it has sub-commands.
COMMANDS = (
    "hub",
    "pub",
    "sub",
    "demo",
    "load",
    "simulate",
    "reproduce",
    "controller",
    "pipeline",
    "store",
    "up",
    "doctor",
    "move",
    "replicate",
    "hubs",
    "topics",
    "plan",
    "bench",
    "lake",
    "users",
    "reference",
)


def _show_version(is_wanted: bool) -> None:
    if is_wanted:
        typer.echo(f"equipoise {__version__}")
        raise typer.Exit


def _equipoise(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Pub/sub that keeps every topic inside its latency and load limits. Any Redis client is a client."""


def make_app(commands: Iterable[str] = COMMANDS) -> typer.Typer:
    """The command with these sub-commands."""
    made = typer.Typer(
        name="equipoise",
        no_args_is_help=True,
        rich_markup_mode="rich",
        pretty_exceptions_enable=False,
    )
    made.callback()(_equipoise)
    for name in commands:
        module = import_module(f"equipoise.cli.{name}")
        if hasattr(module, "app"):
            made.add_typer(module.app, name=name)
        else:
            made.command(name)(module.command)
    return made


def __getattr__(name: str) -> typer.Typer:
    """`app`, the whole of it, is made when somebody asks for it."""
    if name != "app":
        raise AttributeError(name)
    return make_app()


def main() -> None:
    named = [word for word in sys.argv[1:2] if word in COMMANDS]
    make_app(named or COMMANDS)()


if __name__ == "__main__":
    main()
