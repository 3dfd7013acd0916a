"""The `equipoise` command and its list of sub-commands.

A command that is named is loaded alone, and none to list them: a hub does not wait for what the simulator needs, and
neither does help or a shell that completes a word.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from typing import Annotated

import typer

from equipoise.version import __version__

__all__ = ["COMMANDS", "main", "make_app", "named_command"]

# In the order in which help lists them, with the first paragraph of their help; without one, a command is not listed.
# Each has a module of its name in this folder: with `command`, or with `app` if it has sub-commands.
COMMANDS = {
    "hub": "Run a hub: pub/sub for every Redis client.",
    "pub": "Publish to a topic.",
    "sub": "Print the messages of topics as they are published, until Ctrl-C.",
    "gateway": "Run a gateway: it finds its place in the network by measuring hubs, and mobile clients take theirs "
    "from it.",
    "demo": "Watch a game on a real system for two minutes: players join, crowd on one tile, and leave.",
    "load": "Load a system with a game: players walk over tiles, publish where they are, and hear whoever is near.",
    "simulate": "Run hubs and clients in virtual time on a network that misbehaves, and check that they keep their "
    "promises.",
    "reproduce": "Run an experiment of one of the papers on the simulator, with the real hubs and policies, and judge "
    "its claims.",
    "controller": "Turn what the pipeline measures into plans, and serve the dashboard.",
    "pipeline": "Read what hubs record, send the controller its view each second, keep history as Parquet. Needs Java "
    "17 or newer.",
    "store": "Run a ZooKeeper for hubs to meet in, from the jars that PySpark brings. Needs Java 17 or newer.",
    "up": "Run a store, hubs, the pipeline and a controller on this machine. Ctrl-C stops it all.",
    "doctor": "Look at this machine: Java, Spark, ports, open files, memory, disk; with --store also the store and the "
    "clock.",
    "move": "Move a topic to a hub. Subscribers and publishers stay connected, and nothing is lost or repeated.",
    "replicate": "Serve a topic from several hubs: many subscribers need all-publishers, many messages "
    "all-subscribers.",
    "hubs": "See the hubs, and take them out of service.",
    "topics": "List topics, show one topic, and set specs: limits for the topics that match a pattern.",
    "plan": "See the plan: which hubs serve which topics, and why.",
    "bench": "Measure the hub beside Redis and NATS.",
    "profile": "Find out what a hub on this machine can carry.",
    "lake": "Look into the pipeline's history, and keep it in order.",
    "users": "Say who may use a hub, and for which topics.",
    "reference": "",
}


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


def make_app(commands: Iterable[str] = COMMANDS, *, listed: Iterable[str] = ()) -> typer.Typer:
    """The command with these sub-commands; those that are only listed can be seen and not run."""
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
    for name in listed:
        if COMMANDS[name]:
            made.command(name, help=COMMANDS[name])(lambda: None)
    return made


def __getattr__(name: str) -> typer.Typer:
    """`app`, the whole of it, is made when somebody asks for it."""
    if name != "app":
        raise AttributeError(name)
    return make_app()


def named_command(arguments: Sequence[str], environment: Mapping[str, str]) -> str | None:
    """The sub-command that is run, or whose words a shell completes; None if it is not known yet."""
    line = environment.get("COMP_WORDS") or environment.get("_TYPER_COMPLETE_ARGS")
    words = line.split()[1:] if line and "_EQUIPOISE_COMPLETE" in environment else arguments
    word = next((word for word in words if not word.startswith("-")), "")
    return word if word in COMMANDS else None


def main() -> None:
    named = named_command(sys.argv[1:], os.environ)
    made = make_app((), listed=COMMANDS) if named is None else make_app([named])
    made(prog_name="equipoise")


if __name__ == "__main__":
    main()
