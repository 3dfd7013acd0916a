"""`equipoise up`: run a whole cluster on this machine until it is stopped."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import tomllib
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from equipoise.cli.support.failures import exit_on_failure
from equipoise.cli.support.logs import LogForm, LogFormat, Verbose, set_up_logs
from equipoise.cli.support.spark_options import Master
from equipoise.errors import SettingsError
from equipoise.local import Layout, LocalSystem, SystemSettings
from equipoise.processes import Phase, PhaseChange

console = Console(highlight=False, soft_wrap=True)


def command(
    hubs: Annotated[int, typer.Option(min=1, help="Minimum number of hubs.")] = 2,
    max_hubs: Annotated[
        int, typer.Option(min=0, help="Maximum number of hubs under load; 0: the same as --hubs.")
    ] = 0,
    bookies: Annotated[
        int,
        typer.Option(
            min=0, help="Number of bookies, which store logs of topics: for streams and durable topics."
        ),
    ] = 0,
    sites: Annotated[
        str, typer.Option(help="Sites, separated by commas; hubs and bookies are distributed over them.")
    ] = "",
    directory: Annotated[Path, typer.Option("--dir", help="Folder for state and logs.")] = Path(
        "equipoise-data"
    ),
    store: Annotated[
        str, typer.Option(help="Use this store (zk://…) instead of starting one.", envvar="EQUIPOISE_STORE")
    ] = "",
    hub_config: Annotated[
        Path | None, typer.Option(exists=True, dir_okay=False, help="Settings file (TOML) for all hubs.")
    ] = None,
    controller_config: Annotated[
        Path | None,
        typer.Option(exists=True, dir_okay=False, help="Settings file (TOML) for the controller."),
    ] = None,
    tls: Annotated[
        bool,
        typer.Option(
            "--tls",
            help="Also serve TLS, and the dashboard over HTTPS, with a generated CA in DIR/tls.",
        ),
    ] = False,
    pipeline: Annotated[bool, typer.Option(help="Run the pipeline; without it load is not balanced.")] = True,
    master: Master = "local[*]",
    log_format: LogFormat = LogForm.TEXT,
    verbose: Verbose = False,
) -> None:
    """Run a whole cluster on this machine: store, hubs, pipeline and controller. Ctrl-C stops it.

    The first hub accepts Redis clients within seconds; balancing begins half a minute later. With --bookies 3 it keeps
    logs of topics: `redis-cli -p 6399 xadd orders '*' item tea`.
    """
    set_up_logs(log_format, verbose=verbose, level=logging.WARNING)
    # Child processes log in the same format.
    os.environ["EQUIPOISE_LOG_FORMAT"] = log_format.value
    with exit_on_failure():
        if max_hubs and max_hubs < hubs:
            raise SettingsError(f"--max-hubs {max_hubs} is below --hubs {hubs}")
        settings = SystemSettings(
            hubs=hubs,
            hubs_max=max_hubs,
            bookies=bookies,
            sites=tuple(part.strip() for part in sites.split(",") if part.strip()),
            store_url=store,
            has_login=not _has_login(hub_config),
            has_tls=tls,
            has_pipeline=pipeline,
            extra={
                "pipeline": ("--master", master),
                **{
                    name: ("--config", str(path.resolve()))
                    for name, path in (("hub", hub_config), ("controller", controller_config))
                    if path is not None
                },
            },
        )
        asyncio.run(serve(Layout(directory), settings))


def _has_login(hub_config: Path | None) -> bool:
    """Whether the hub settings have a login for other hubs. The hubs report other errors in the file themselves."""
    if hub_config is None:
        return False
    try:
        membership = tomllib.loads(hub_config.read_text(encoding="utf-8")).get("membership")
    except (OSError, ValueError):
        return False
    return isinstance(membership, dict) and "cluster_user" in membership


async def serve(layout: Layout, settings: SystemSettings) -> None:
    loop = asyncio.get_running_loop()
    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped.set)
    began_at = loop.time()
    system = LocalSystem(layout, settings, on_change=_tell)
    starting = asyncio.create_task(system.start())
    stopping = asyncio.create_task(stopped.wait())
    tasks: list[asyncio.Task[Any]] = [starting, stopping]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        if not stopped.is_set():
            await starting
            _welcome(system, loop.time() - began_at)
            refused = asyncio.create_task(system.refused())
            tasks.append(refused)
            await asyncio.wait([refused, stopping], return_when=asyncio.FIRST_COMPLETED)
            if refused.done():
                raise refused.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await system.stop()
        console.print("stopped")


def _welcome(system: LocalSystem, took_s: float) -> None:
    port = system.hub_url().rpartition(":")[2]
    console.print(f"[bold green]equipoise is up[/] after {took_s:.1f} s: {system.hub_url()}")
    for name, taken in system.layout.taken.items():
        console.print(f"[yellow]port {taken} is taken[/]: {name} listens on {system.layout.known_port(name)}")
    console.print(f"  redis-cli -p {port} subscribe news       and in another terminal")
    console.print(f"  redis-cli -p {port} publish news hello")
    if system.settings.bookies:
        console.print(
            f"  redis-cli -p {port} xadd orders '*' item tea   (logs, on {system.settings.bookies} bookies)"
        )
    if system.tls_url:
        console.print(
            f"  with TLS: equipoise sub news --url {system.tls_url} --tls-ca {system.layout.tls / 'ca.pem'}"
        )
    console.print(f"  equipoise hubs ls --store {system.store_url}")
    if system.dashboard_url:
        console.print(f"  dashboard: {system.dashboard_url}  (token for actions: {system.layout.token()})")
    console.print(f"  logs and state: {system.layout.root}")


def _tell(change: PhaseChange) -> None:
    colour = {Phase.READY: "green", Phase.WAITING: "red", Phase.STARTING: "dim", Phase.STOPPED: "dim"}[
        change.phase
    ]
    detail = f": {change.detail}" if change.detail else ""
    console.print(f"[{colour}]{change.name} {change.phase}[/]{detail}", markup=True, soft_wrap=True)
