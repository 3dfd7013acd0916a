"""What commands that work on a store share: which store, who asks, and opening it for as long as they run."""

from __future__ import annotations

import asyncio
import getpass
import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated

import typer

from equipoise.cli.failures import exit_on_failure
from equipoise.errors import SettingsError, StoreUnavailableError
from equipoise.store.contract import Store, StoreSettings
from equipoise.store.hubs import HubSeen, HubsStore
from equipoise.store.opening import open_store
from equipoise.store.plans import PlanStore
from equipoise.store.specs import SpecsStore
from equipoise.store.tree import Tree
from equipoise.store.users import UsersStore

# People wait for an answer; a store that needs longer than this is in trouble.
_PATIENCE_S = 10.0

StoreUrl = Annotated[
    str,
    typer.Option(
        "--store", envvar="EQUIPOISE_STORE", help="Where the hubs meet: zk://host:port,host:port/root."
    ),
]
Region = Annotated[str, typer.Option(help="Which system of hubs in that store.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Why = Annotated[str, typer.Option("--why", help="A note for the history of the plan.")]


@dataclass(frozen=True)
class Metadata:
    """All that is kept in a store about one region."""

    store: Store
    plans: PlanStore
    hubs: HubsStore
    specs: SpecsStore
    users: UsersStore

    async def living(self) -> dict[str, HubSeen]:
        return {name: seen for name, seen in (await self.hubs.load()).items() if seen.alive is not None}


def run(url: str, region: str, main: Callable[[Metadata], Awaitable[None]]) -> None:
    """Open the store, do the work, close it. Errors end the command with a line that says what to do."""

    async def work() -> None:
        if not url:
            raise SettingsError(
                "which store? Give --store zk://HOST:PORT or set EQUIPOISE_STORE; `equipoise store` starts one"
            )
        tree = Tree(region)
        try:
            store = await open_store(
                url, StoreSettings(session_timeout_s=_PATIENCE_S, request_timeout_s=_PATIENCE_S)
            )
        except StoreUnavailableError as problem:
            raise StoreUnavailableError(
                f"no store answers at {url}: start one with `equipoise store`, or check the address"
            ) from problem
        try:
            await main(
                Metadata(
                    store,
                    PlanStore(store, tree, writer=author()),
                    HubsStore(store, tree),
                    SpecsStore(store, tree),
                    UsersStore(store, tree),
                )
            )
        finally:
            await store.close()

    with exit_on_failure():
        asyncio.run(work())


def author() -> str:
    """Who changes the plan, for its history."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = "somebody"
    return f"{user}@{socket.gethostname()}"
