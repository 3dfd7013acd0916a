"""Options of commands that use the store, and opening it for the duration of the command."""

from __future__ import annotations

import asyncio
import getpass
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from equipoise.cli.support.failures import exit_on_failure
from equipoise.errors import SettingsError, StoreUnavailableError
from equipoise.store.contract import Store, StoreSettings
from equipoise.store.records.bookies import BookiesStore
from equipoise.store.records.hubs import HubSeen, HubsStore
from equipoise.store.records.plans import PlanStore
from equipoise.store.records.specs import SpecsStore
from equipoise.store.records.users import UsersStore
from equipoise.store.tree import Tree
from equipoise.store.urls import open_store

# The operator is waiting.
_PATIENCE_S = 10.0
# Default folder of `equipoise up`.
UP_DIRECTORY = Path("equipoise-data")

StoreUrl = Annotated[
    str,
    typer.Option(
        "--store",
        envvar="EQUIPOISE_STORE",
        help="Metadata store of the cluster: zk://host:port,host:port/root. Without it, the store of "
        "the `equipoise up` that was started in this folder.",
    ),
]
Region = Annotated[str, typer.Option(help="Name of the cluster inside the store.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Why = Annotated[str, typer.Option("--why", help="Note for the history of the plan.")]


@dataclass(frozen=True)
class ClusterRecords:
    """The records of one cluster in a store."""

    store: Store
    plans: PlanStore
    hubs: HubsStore
    specs: SpecsStore
    users: UsersStore
    bookies: BookiesStore

    async def living(self) -> dict[str, HubSeen]:
        return {name: seen for name, seen in (await self.hubs.load()).items() if seen.alive is not None}


def run(
    url: str, region: str, main: Callable[[ClusterRecords], Awaitable[None]], *, is_quiet: bool = False
) -> None:
    """Open the store, do the work, close it. An error ends the command with a line that has the remedy.

    A slow store is reported, unless `is_quiet`.
    """

    async def work() -> None:
        wanted = url or local_store_url()
        if not wanted:
            raise SettingsError(
                "no store given: use --store zk://HOST:PORT or EQUIPOISE_STORE, or change to the folder in which "
                "`equipoise up` was started; `equipoise store` starts a store alone"
            )
        # Imported here, so that processes that only share the options do not load the progress display.
        from equipoise.cli.support.progress import shown_if_long

        async with AsyncExitStack() as stack:
            try:
                words = f"no answer yet from the store {wanted}; waiting {_PATIENCE_S:g} s"
                async with shown_if_long(words, is_quiet=is_quiet):
                    metadata = await stack.enter_async_context(opened(wanted, region, patience_s=_PATIENCE_S))
            except StoreUnavailableError as problem:
                if url:
                    raise
                raise StoreUnavailableError(
                    f"the cluster of this folder does not run (no store answers at {wanted}): start it with "
                    "`equipoise up`, or give --store"
                ) from problem
            await main(metadata)

    with exit_on_failure():
        asyncio.run(work())


@asynccontextmanager
async def opened(url: str, region: str, *, patience_s: float) -> AsyncIterator[ClusterRecords]:
    """The store, for the duration of the block. Raises StoreUnavailableError."""
    tree = Tree(region)
    try:
        store = await open_store(
            url, StoreSettings(session_timeout_s=_PATIENCE_S, request_timeout_s=patience_s)
        )
    except StoreUnavailableError as problem:
        raise StoreUnavailableError(
            f"no store answers at {url}: start one with `equipoise store`, or check the address"
        ) from problem
    try:
        yield ClusterRecords(
            store,
            PlanStore(store, tree, writer=author()),
            HubsStore(store, tree),
            SpecsStore(store, tree),
            UsersStore(store, tree),
            BookiesStore(store, tree),
        )
    finally:
        await store.close()


def local_store_url(directory: Path = UP_DIRECTORY) -> str:
    """The store of the `equipoise up` that uses this folder; empty if there is none."""
    try:
        ports = json.loads((directory / "ports.json").read_text())
        port = ports.get("store") if isinstance(ports, dict) else None
    except (OSError, ValueError):
        return ""
    return f"zk://127.0.0.1:{port}" if isinstance(port, int) else ""


def author() -> str:
    """Author of changes of the plan, for its history."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = "unknown"
    return f"{user}@{socket.gethostname()}"
