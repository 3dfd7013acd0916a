"""`equipoise topics filters`: filters of a topic's subscribers, and filters between hubs."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from equipoise.cli.support.completion import topic_names
from equipoise.cli.support.hub_connection import CommandConnection, PasswordFile, User, ask_all, read_login
from equipoise.cli.support.store_options import AsJson, ClusterRecords, Region, StoreUrl, run
from equipoise.cli.support.tables import show_json, show_table
from equipoise.errors import EquipoiseError

__all__ = ["list_filters"]

# Filters requested from one hub, as many as it lists.
_LISTED = 1_000


def list_filters(
    topic: Annotated[str, typer.Argument(help="Topic name.", autocompletion=topic_names)],
    *,
    store: StoreUrl = "",
    region: Region = "default",
    limit: Annotated[
        int, typer.Option(min=1, help="Maximum number of filters; those with most subscriptions first.")
    ] = 50,
    as_json: AsJson = False,
    user: User = "",
    password_file: PasswordFile = "",
) -> None:
    """List the filters of a topic's subscribers on all hubs, and how many cover them between hubs.

    Of a hub with more than 1,000 filters the first 1,000 are looked at.
    """

    async def main(metadata: ClusterRecords) -> None:
        login, name = read_login(user, password_file), topic.encode()
        living = await metadata.living()

        async def question(connection: CommandConnection) -> Any:
            return await connection.ask(b"EQ.FILTERS", name, b"%d" % _LISTED)

        hubs: list[dict[str, Any]] = []
        filters: dict[str, dict[str, Any]] = {}
        for hub, answer in sorted((await ask_all(living, login, question)).items()):
            if isinstance(answer, EquipoiseError):
                typer.echo(f"equipoise: hub {hub}: {answer}", err=True)
                continue
            found, covers, *rows = answer
            hubs.append({"hub": hub, "filters": found, "covers": covers})
            for text, subscriptions in rows:
                shown = text.decode("utf-8", "backslashreplace")
                row = filters.setdefault(shown, {"filter": shown, "subscriptions": 0, "hubs": []})
                row["subscriptions"] += subscriptions
                row["hubs"].append(hub)
        ranked = sorted(filters.values(), key=lambda row: (-row["subscriptions"], row["filter"]))
        if as_json:
            show_json({"topic": topic, "hubs": hubs, "filters": ranked})
            return
        show_table(
            ("HUB", "FILTERS", "COVERS"), [(row["hub"], row["filters"], row["covers"]) for row in hubs]
        )
        typer.echo()
        rows = [(row["filter"], row["subscriptions"], " ".join(row["hubs"])) for row in ranked[:limit]]
        show_table(("FILTER", "SUBSCRIPTIONS", "HUBS"), rows)
        if len(ranked) > limit:
            typer.echo(f"and {len(ranked) - limit:,} more: use --limit or --json")

    run(store, region, main, is_quiet=as_json)
