"""`equipoise subscriptions`: list the durable subscriptions of a topic, show one, reset and remove them."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from equipoise.cli.support.hub_connection import CommandConnection, on_hub
from equipoise.cli.support.store_options import AsJson
from equipoise.cli.support.tables import name_of, show_json, show_result, show_rows
from equipoise.cli.support.units import parse_start
from equipoise.client.durable_subscription import spell_start
from equipoise.errors import RefusedError, SettingsError

app = typer.Typer(
    help="List the durable subscriptions of a topic, show one, reset and remove them.",
    no_args_is_help=True,
)

Topic = Annotated[str, typer.Argument(metavar="TOPIC", help="Topic name.")]
Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the subscription, or of its group.")]


@app.command("ls")
@on_hub
async def list_subscriptions(
    connection: CommandConnection,
    topic: Topic,
    *,
    as_json: AsJson = False,
) -> None:
    """List the durable subscriptions and consumer groups of a topic: mark, lag, messages without an ack."""
    groups = await _ask(connection, topic, "", b"XINFO", b"GROUPS", topic.encode())
    names = [group[group.index(b"name") + 1] for group in groups]
    rows = [await _facts(connection, topic, name_of(name), name) for name in names]
    if as_json:
        show_json(rows)
        return
    show_rows(
        ("NAME", "MARK", "LAG", "PENDING", "CONSUMERS"),
        [{**row, "consumers": len(row["consumers"])} for row in rows],
    )


@app.command()
@on_hub
async def show(
    connection: CommandConnection,
    topic: Topic,
    name: Name,
    *,
    as_json: AsJson = False,
) -> None:
    """Show one durable subscription: its mark, what it has not acknowledged, its retries and consumers."""
    facts = await _facts(connection, topic, name, name.encode())
    if as_json:
        show_json(facts)
        return
    for key, value in facts.items():
        shown = " ".join(value) if isinstance(value, list) else "unknown" if value is None else value
        typer.echo(f"{key.replace('_', ' ')}: {shown}")


@app.command()
@on_hub
async def reset(
    connection: CommandConnection,
    topic: Topic,
    name: Name,
    *,
    to: Annotated[
        str,
        typer.Option(
            "--to",
            metavar="START",
            help="beginning, end, the id of the first message to get, number:5 for the fifth of the topic, or a "
            "time such as 2026-01-31T12:00:00+00:00.",
        ),
    ],
    as_json: AsJson = False,
) -> None:
    """Restart a durable subscription at another message. Messages without an ack are not delivered again."""
    start = spell_start(parse_start(to))
    await _ask(connection, topic, name, b"EQ.GROUP", b"RESET", topic.encode(), name.encode(), start)
    facts = {"topic": topic, "name": name, "to": to}
    show_result(facts, f"{name} of {topic} restarts at: {to}", as_json=as_json)


@app.command("rm")
@on_hub
async def remove(
    connection: CommandConnection,
    topic: Topic,
    name: Name,
    *,
    as_json: AsJson = False,
) -> None:
    """Remove a durable subscription: its mark, and what it has not acknowledged. Messages stay in the log."""
    removed = await _ask(connection, topic, name, b"XGROUP", b"DESTROY", topic.encode(), name.encode())
    if not removed:
        raise _unknown(topic, name)
    show_result({"topic": topic, "name": name}, f"{name} of {topic} removed", as_json=as_json)


async def _ask(connection: CommandConnection, topic: str, name: str, *words: bytes) -> Any:
    """The hub's reply. Raises SettingsError if there is no such log or subscription."""
    try:
        return await connection.ask(*words)
    except RefusedError as problem:
        if problem.code == "NOGROUP":
            raise _unknown(topic, name) from problem
        if "no such key" in problem.text or "requires the key to exist" in problem.text:
            raise SettingsError(
                f"topic {topic} has no log and no durable subscriptions: `equipoise topics set {topic} --durable "
                "3/3/2` stores its messages from then on"
            ) from problem
        raise


def _unknown(topic: str, name: str) -> SettingsError:
    return SettingsError(
        f"{topic} has no subscription {name}: `equipoise subscriptions ls {topic}` lists them"
    )


async def _facts(connection: CommandConnection, topic: str, shown: str, name: bytes) -> dict[str, Any]:
    flat = await _ask(connection, topic, shown, b"EQ.GROUP", b"SHOW", topic.encode(), name)
    facts: dict[str, Any] = {}
    for key, value in zip(flat[::2], flat[1::2], strict=True):
        text = [name_of(each) for each in value] if isinstance(value, list) else value
        facts[key.decode().replace("-", "_")] = name_of(text) if isinstance(text, bytes) else text
    facts["is_exclusive"] = bool(facts["is_exclusive"])
    return facts
