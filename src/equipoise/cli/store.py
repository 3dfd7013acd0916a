"""`equipoise store`: run a ZooKeeper server until it is stopped."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import Annotated

import typer

from equipoise.cli.support.failures import exit_on_failure
from equipoise.errors import SettingsError, StoreUnavailableError
from equipoise.hub.access.connection_limits import is_loopback
from equipoise.store.embedded.zookeeper_process import EmbeddedSettings, EmbeddedZooKeeper
from equipoise.store.zookeeper_url import ZOOKEEPER_PORT


def command(
    port: Annotated[int, typer.Option(help="Port to listen on; 0 takes a free one.")] = ZOOKEEPER_PORT,
    directory: Annotated[
        Path, typer.Option("--dir", help="Data folder; created if it does not exist.")
    ] = Path("equipoise-store"),
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    insecure: Annotated[
        bool,
        typer.Option(
            "--insecure",
            help="Allow listening on other addresses than loopback: every client that connects has full "
            "access.",
        ),
    ] = False,
) -> None:
    """Run a single ZooKeeper server from PySpark's jars, as metadata store. Needs Java 17 or newer.

    For tests and small clusters. Give hubs `--store zk://host,host,host/root` to use a ZooKeeper ensemble instead.
    """
    with exit_on_failure():
        if not insecure and not is_loopback(host):
            raise SettingsError(
                f"{host} is not loopback, and ZooKeeper has no password: "
                "give --insecure if the network is trusted"
            )
        asyncio.run(serve(EmbeddedSettings(directory=directory, host=host, port=port)))


async def serve(settings: EmbeddedSettings) -> None:
    loop = asyncio.get_running_loop()
    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped.set)
    server = EmbeddedZooKeeper(settings)
    starting = asyncio.create_task(server.start())
    stopping = asyncio.create_task(stopped.wait())
    try:
        await asyncio.wait([starting, stopping], return_when=asyncio.FIRST_COMPLETED)
        if stopped.is_set():
            return
        await starting
        print(f"equipoise store ready on {server.address}", flush=True)
        ending = asyncio.create_task(server.wait())
        await asyncio.wait([ending, stopping], return_when=asyncio.FIRST_COMPLETED)
        if not stopped.is_set():
            raise StoreUnavailableError(
                f"ZooKeeper ended by itself with status {ending.result()}; see {server.log_path}"
            )
        ending.cancel()
    finally:
        for task in (starting, stopping):
            task.cancel()
        await asyncio.gather(starting, stopping, return_exceptions=True)
        await server.stop()
