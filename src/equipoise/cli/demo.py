"""`equipoise demo`: a whole cluster under a game whose load grows and shrinks."""

from __future__ import annotations

import asyncio
import logging
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from equipoise.cli.support.failures import FAILED, exit_on_failure
from equipoise.client import ClientSettings
from equipoise.errors import DisconnectedError, SettingsError, StoreUnavailableError
from equipoise.lab.demo import (
    CONTROLLER_TOML,
    CONTROLLER_WORDS,
    FAVOURITE,
    GAME,
    HUB_TOML,
    LIMIT_MS,
    MOVES_ONLY,
    SHORT,
    STORY,
    DemoSites,
    LineShow,
    Mover,
    ScreenShow,
    Show,
    Swarm,
    Watcher,
    report_page,
    summary_lines,
)
from equipoise.lab.demo.swarm import TOPIC as SWARM_TOPIC
from equipoise.lab.workload.game import GameLoad
from equipoise.local import Layout, LocalSystem, SystemSettings
from equipoise.local.layout import HOST
from equipoise.model import TopicSpec
from equipoise.processes import Phase
from equipoise.store import MemoryStoreServer, MemoryTree, SpecsStore, Tree, open_store

HUBS = 3
HUBS_MAX = 5
# A hub that is requested again has another name; the ports are enough for all hubs of the demo.
NAMES_MAX = 12
# Seconds on an idle machine; the demo reports a busy machine when even this has passed.
READY_S = 180.0
# Long enough to show that nothing else happens.
MOVE_PAUSE_S = 2.5


def command(
    short: Annotated[
        bool, typer.Option("--short", help="Shorter: do not wait until hubs are released.")
    ] = False,
    report: Annotated[Path, typer.Option(help="File of the report.")] = Path("equipoise-demo.html"),
) -> None:
    """Run a two-minute demo on a real cluster: a game whose load grows and shrinks.

    Players join, gather on one tile, and leave. Hubs are started and released, the busy topic moves and is
    replicated, a swarm of drones crosses from one site to another and its topic follows, and no message is lost: the
    exit status is 0 if all of this happened, 1 if not. It stops by itself with a summary and a report.

    The two sites are on this machine, behind relays that delay traffic between them by 30 ms.
    """
    console = Console()
    logging.basicConfig(level=logging.ERROR)
    with exit_on_failure():
        try:
            report.touch()
        except OSError as problem:
            raise SettingsError(f"cannot write the report {report}: {problem.strerror}") from problem
        show, load = asyncio.run(tell(console, is_short=short))
        verdict = show.verdict()
        lines = summary_lines(
            verdict,
            published=load.tally.published,
            delivered=load.tally.delivered,
            moves=show.moves,
            hubs_max=show.hubs_max,
            homes_max=show.homes_max,
            following=show.following,
            missed=show.missed,
        )
        is_good = not show.missed and not any(
            verdict[name] for name in ("lost", "duplicated", "out_of_order")
        )
        report.write_text(report_page(show.watcher.scenes, show.watcher.changes, lines, is_good=is_good))
        for line in (*lines, f"The report with figures: {report.resolve()}"):
            console.print(line, highlight=False, soft_wrap=True)
    if not is_good:
        raise typer.Exit(FAILED)


async def tell(console: Console, *, is_short: bool) -> tuple[Show, GameLoad]:
    """Start all processes, run the game, stop all processes."""
    with tempfile.TemporaryDirectory(prefix="equipoise-demo-") as folder:
        console.print("Starting a ZooKeeper, three hubs, a controller and Spark …", highlight=False)
        async with started(Path(folder), console) as (system, region):
            names = [f"hub-{number + 1}" for number in range(HUBS)]
            load = GameLoad(
                [system.hub_url(number + 1) for number in range(HUBS)],
                GAME,
                # They are equally near to both sites, which no point of a network is.
                settings=ClientSettings(coordinate_enabled=False),
            )
            tree = Tree(system.settings.region)
            store = await open_store(system.store_url)
            try:
                topic = GAME.topic_at(*FAVOURITE)
                mover = Mover(store, tree, topic, pause_s=MOVE_PAUSE_S)
                await SpecsStore(store, tree).put(TopicSpec(pattern=SWARM_TOPIC, latency_ms=LIMIT_MS))
                await region.start_gateways(names)
                swarm = Swarm([region.url(name) for name in names], region.ways, region.gateways, load.tally)
                show = Show(load, Watcher(system.dashboard_url, load, swarm), mover, names, swarm)
                port = system.hub_url().rpartition(":")[2]
                header = (
                    f"Dashboard: {system.dashboard_url}   "
                    f"Look in: redis-cli -p {port} subscribe {topic.decode()}"
                )
                acts = MOVES_ONLY if not system.settings.has_pipeline else SHORT if is_short else STORY
                with (ScreenShow if console.is_terminal else LineShow)(console, header) as look:
                    await show.play(acts, look)
            finally:
                await store.close()
            return show, load


@asynccontextmanager
async def started(folder: Path, console: Console) -> AsyncIterator[tuple[LocalSystem, DemoSites]]:
    """The whole cluster; without Java three hubs and a controller without views, on a memory store."""
    (folder / "hub.toml").write_text(HUB_TOML)
    (folder / "controller.toml").write_text(CONTROLLER_TOML)
    layout = Layout(folder / "data")
    region = DemoSites(
        [f"hub-{number + 1}" for number in range(NAMES_MAX)], lambda name: (HOST, layout.known_port(name))
    )
    await region.open()
    settings = SystemSettings(
        hubs=HUBS,
        hubs_max=HUBS_MAX,
        extra={
            **region.words,
            "hub": ("--config", str(folder / "hub.toml")),
            "controller": ("--config", str(folder / "controller.toml"), *CONTROLLER_WORDS),
        },
    )
    try:
        async with LocalSystem(layout, settings) as system:
            await until_ready(system, console)
            yield system, region
    except StoreUnavailableError as problem:
        console.print(f"Only moves can be shown: {problem}.", style="yellow", highlight=False)
        server = MemoryStoreServer(MemoryTree(asyncio.get_running_loop().time), host=HOST, port=0)
        await server.start()
        alone = replace(settings, has_pipeline=False, store_url=f"eqs://{HOST}:{server.port}")
        try:
            async with LocalSystem(layout, alone) as system:
                await until_ready(system, console)
                yield system, region
        finally:
            await server.stop()
    finally:
        await region.close()


async def until_ready(system: LocalSystem, console: Console) -> None:
    """All but Spark, for which the demo does not wait."""
    console.print(f"The dashboard comes up at {system.dashboard_url}", highlight=False)
    deadline = asyncio.get_running_loop().time() + READY_S
    while late := [
        name
        for name, phase in system.supervisor.phases.items()
        if name != "pipeline" and phase is not Phase.READY
    ]:
        if asyncio.get_running_loop().time() > deadline:
            raise DisconnectedError(
                f"{', '.join(late)} not ready within {READY_S:g} s: is this machine busy with something else? Try again"
            )
        await asyncio.sleep(0.05)
