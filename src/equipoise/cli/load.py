"""`equipoise load`: put load on a running cluster with a simulated game, and count lost messages."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from equipoise.cli.support.failures import FAILED, exit_on_failure
from equipoise.lab.scenarios.game import Game, Schedule
from equipoise.lab.workload.game import GameLoad

LOOK_S = 0.5
SETTLE_S = 3.0


def command(
    urls: Annotated[
        list[str] | None,
        typer.Argument(help="Hubs that clients connect to first. [equipoise://127.0.0.1:6399]"),
    ] = None,
    players: Annotated[
        str, typer.Option(help="Number of players over time: SECONDS:PLAYERS,…, interpolated linearly.")
    ] = "0:10,30:60,60:60,90:10,120:10",
    tiles: Annotated[int, typer.Option(min=1, max=64, help="Tiles on each side of the map.")] = 4,
    payload: Annotated[int, typer.Option(min=64, max=100_000, help="Bytes of one update.")] = 1_000,
    rate: Annotated[float, typer.Option(min=0.1, max=100, help="Updates per second of one player.")] = 3.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object at the end.")] = False,
) -> None:
    """Put load on a running cluster with a simulated game, and count lost, duplicate and reordered messages.

    Players walk over tiles, publish their position, and subscribe to the tiles near them. An observer per tile sees
    every message. The exit status is 1 if a message was lost, duplicated or out of order.
    """
    with exit_on_failure():
        schedule = Schedule.parse(players)
        game = Game(tiles_per_side=tiles, payload_bytes=payload, updates_per_s=rate)
        found = asyncio.run(_run(urls or ["equipoise://127.0.0.1:6399"], game, schedule, is_quiet=as_json))
    if as_json:
        print(json.dumps(found))
    else:
        Console().print(
            f"{found['published']:,} updates published, {found['delivered']:,} delivered: {found['lost']} lost, "
            f"{found['duplicated']} duplicated, {found['out_of_order']} out of order"
        )
    if found["lost"] or found["duplicated"] or found["out_of_order"]:
        raise typer.Exit(FAILED)


async def _run(urls: list[str], game: Game, schedule: Schedule, *, is_quiet: bool) -> dict[str, Any]:
    load = GameLoad(urls, game)
    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), disable=is_quiet) as progress:
        task = progress.add_task("starting observers", total=schedule.duration_s)
        try:
            await load.start()
            began_at = time.monotonic()
            while (elapsed_s := time.monotonic() - began_at) < schedule.duration_s:
                load.set_players(schedule.at(elapsed_s))
                words = f"{load.players} players, {load.tally.published:,} updates"
                progress.update(task, completed=elapsed_s, description=words)
                await asyncio.sleep(LOOK_S)
            await load.settle(SETTLE_S)
            return {
                "published": load.tally.published,
                "delivered": load.tally.delivered,
                **load.tally.verdict(),
            }
        finally:
            await load.stop()
