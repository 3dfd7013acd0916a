"""The `equipoise` command and its list of sub-commands.

Only the named command is imported, and none to list them: a hub does not wait for the imports of the simulator, and
neither does help or shell completion.
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
    "hub": "Run a hub: a pub/sub server that speaks the Redis protocol.",
    "bookie": "Run a bookie: it stores the entries of durable topics on one disk. Or check its directory.",
    "pub": "Publish to a topic.",
    "sub": "Subscribe to topics and print messages until Ctrl-C.",
    "gateway": "Run a gateway: it measures its network coordinate and gives it to mobile clients nearby.",
    "demo": "Run a two-minute demo on a real cluster: a game whose load grows and shrinks.",
    "load": "Put load on a running cluster with a simulated game, and count lost, duplicate and "
    "reordered messages.",
    "simulate": "Run hubs and clients in virtual time on a faulty network, and check their guarantees.",
    "reproduce": "Run an experiment of one of the papers on the simulator, and check the paper's claims.",
    "controller": "Run a controller: plan from the pipeline's view, and serve the dashboard.",
    "pipeline": "Run the Spark pipeline: telemetry of hubs in, a view each second out, history as "
    "Parquet. Needs Java 17 or newer.",
    "store": "Run a single ZooKeeper server from PySpark's jars, as metadata store. Needs Java 17 or newer.",
    "up": "Run a whole cluster on this machine: store, hubs, pipeline and controller. Ctrl-C stops it.",
    "doctor": "Check this machine: Java, Spark, ports, open files, memory, disk; with --store also the "
    "store and the clock.",
    "move": "Move a topic to a hub. Clients stay connected; no message is lost or duplicated.",
    "replicate": "Replicate a topic over several hubs: all-publishers for many subscribers, "
    "all-subscribers for many messages, content for many filters.",
    "hubs": "List hubs, drain them, change their weight, and remove them.",
    "bookies": "List bookies, show one, drain them, and forget those that are lost.",
    "topics": "List topics, show one topic, and set specs: limits for the topics that match a pattern.",
    "subscriptions": "List the durable subscriptions of a topic, show one, reset and remove them.",
    "plan": "Show the plan, its history and the reasons of its changes.",
    "bench": "Benchmark the hub against Redis and NATS.",
    "profile": "Measure the capacity of a hub on this machine, or find a rate limit for a topic.",
    "lake": "Query and compact the pipeline's history (the lake).",
    "users": "Manage users and their permissions.",
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
    """Pub/sub that keeps every topic within its latency and load limits. Works with any Redis client."""


def make_app(commands: Iterable[str] = COMMANDS, *, listed: Iterable[str] = ()) -> typer.Typer:
    """The command with these sub-commands; those that are only `listed` appear in help and cannot be run."""
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
    """`app`, with all commands, is made on first use."""
    if name != "app":
        raise AttributeError(name)
    return make_app()


def named_command(arguments: Sequence[str], environment: Mapping[str, str]) -> str | None:
    """The sub-command to run, or to complete words for; None if it is not known yet."""
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
