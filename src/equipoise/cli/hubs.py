"""`equipoise hubs`: who is there, and taking a hub out of service."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Annotated, Any

import typer

from equipoise.cli.support.completion import hub_names
from equipoise.cli.support.hub_connection import HubConnection, PasswordFile, User, ask_all, read_login
from equipoise.cli.support.progress import working
from equipoise.cli.support.store_options import AsJson, Metadata, Region, StoreUrl, Why, run
from equipoise.cli.support.tables import show_json, show_result, show_table
from equipoise.control import operations
from equipoise.errors import DisconnectedError, EquipoiseError, WorldError
from equipoise.model import WEIGHT_NORMAL, Plan, quantise_weight
from equipoise.store.records.hubs import HubSeen

app = typer.Typer(help="See the hubs, and take them out of service.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(metavar="HUB", help="The hub's name.", autocompletion=hub_names)]
Wait = Annotated[bool, typer.Option("--wait", help="Return once it is done.")]
Timeout = Annotated[float, typer.Option(help="Seconds to wait at most.")]

# Between two looks at a hub that is being drained.
_LOOK_S = 0.25
_PAGE = b"1000"


@app.command("ls")
def list_hubs(*, store: StoreUrl = "", region: Region = "default", as_json: AsJson = False) -> None:
    """List the hubs: where they are, whether they live, and what share they have."""

    async def main(metadata: Metadata) -> None:
        plan = await metadata.plans.load()
        rows = hub_rows(plan, await metadata.hubs.load())
        if as_json:
            show_json(rows)
            return
        headers = ("HUB", "STATE", "ADDRESS", "SITE", "RACK", "WEIGHT", "LOAD", "ENTRIES")
        show_table(headers, [[row[header.lower()] for header in headers] for row in rows])

    run(store, region, main, is_quiet=as_json)


@app.command()
def drain(
    name: Name,
    *,
    store: StoreUrl = "",
    region: Region = "default",
    wait: Wait = False,
    timeout: Timeout = 60.0,
    why: Why = "",
    as_json: AsJson = False,
    user: User = "",
    password_file: PasswordFile = "",
) -> None:
    """Move everything away from a hub, so that it can be stopped without anybody noticing.

    It stays a member with weight 0. `equipoise hubs forget` takes it out once it is stopped.
    """

    async def main(metadata: Metadata) -> None:
        login = read_login(user, password_file)
        plan = await operations.drain(metadata.plans, name, alive=await metadata.living(), note=why)
        words = f"hub {name} takes no more topics, from plan version {plan.version} on"
        if wait:
            try:
                async with asyncio.timeout(timeout):
                    with working(f"topics leave hub {name}", is_quiet=as_json) as tell:
                        await wait_until_empty(metadata, name, login, tell)
            except TimeoutError as problem:
                raise WorldError(
                    f"topics still live at hub {name} after {timeout:g} s; they go on moving. Look with "
                    f"`equipoise topics ls --hub {name}`, or wait again"
                ) from problem
            words += f"\nno topic lives at hub {name} any more: it can be stopped"
        show_result({"hub": name, "version": plan.version, "is_empty": wait}, words, as_json=as_json)

    run(store, region, main, is_quiet=as_json)


@app.command()
def weigh(
    name: Name,
    weight: Annotated[float, typer.Argument(min=0, max=16, help="In multiples of an ordinary hub.")],
    *,
    store: StoreUrl = "",
    region: Region = "default",
    why: Why = "",
    as_json: AsJson = False,
) -> None:
    """Give a hub another share of the topics; one that was drained takes some again."""

    async def main(metadata: Metadata) -> None:
        share = quantise_weight(weight) if weight > 0 else 0
        living = await metadata.living()
        plan = await operations.weigh(metadata.plans, name, share, alive=living, note=why)
        show_result(
            {"hub": name, "weight": share / WEIGHT_NORMAL, "version": plan.version},
            f"hub {name} has weight {weight:g}, from plan version {plan.version} on",
            as_json=as_json,
        )

    run(store, region, main, is_quiet=as_json)


@app.command()
def forget(
    name: Name,
    *,
    store: StoreUrl = "",
    region: Region = "default",
    why: Why = "",
    as_json: AsJson = False,
) -> None:
    """Take a hub that is stopped out of the plan, for good."""

    async def main(metadata: Metadata) -> None:
        plan = await operations.forget(metadata.plans, metadata.hubs, name, note=why)
        show_result(
            {"hub": name, "version": plan.version},
            f"hub {name} is forgotten, from plan version {plan.version} on",
            as_json=as_json,
        )

    run(store, region, main, is_quiet=as_json)


def hub_rows(plan: Plan, hubs: Mapping[str, HubSeen]) -> list[dict[str, Any]]:
    """What is known of each hub, members or not, by name."""
    entries: dict[str, int] = {}
    for entry in plan.entries.values():
        for home in entry.homes:
            entries[home] = entries.get(home, 0) + 1
    rows = []
    for name in sorted({*hubs, *plan.by_hub}):
        seen, member = hubs.get(name), plan.by_hub.get(name)
        alive = None if seen is None else seen.alive
        rows.append(
            {
                "hub": name,
                "state": _state(is_alive=alive is not None, weight=None if member is None else member.weight),
                "address": None if seen is None else seen.facts.address,
                "site": (seen.facts.site if seen is not None else member.site if member else "") or None,
                "rack": (seen.facts.rack if seen is not None else "") or None,
                "weight": None if member is None else member.weight / WEIGHT_NORMAL,
                "load": None if alive is None else alive.load_ratio,
                "entries": entries.get(name, 0),
            }
        )
    return rows


def _state(*, is_alive: bool, weight: int | None) -> str:
    if not is_alive:
        return "gone" if weight is None else "dead"
    if weight is None:
        return "waiting"
    return "serving" if weight else "drained"


async def wait_until_empty(
    metadata: Metadata, name: str, login: tuple[bytes, bytes] | None, tell: Callable[[str], None]
) -> None:
    """Return when no topic lives at the hub, or the hub lives no more. Raises what the hub answers otherwise."""
    while True:
        hubs = {hub: seen for hub, seen in (await metadata.living()).items() if hub == name}
        if not hubs:
            return
        answer = (await ask_all(hubs, login, _homes))[name]
        if isinstance(answer, EquipoiseError) and not isinstance(answer, DisconnectedError):
            raise answer
        if answer == 0:
            return
        if isinstance(answer, int):
            tell(f"topics leave hub {name}: {answer}{' or more' if answer >= int(_PAGE) else ''} are left")
        await asyncio.sleep(_LOOK_S)


async def _homes(hub: HubConnection) -> int:
    """How many topics live at the hub; of many, some."""
    _, rows = await hub.ask(b"EQ.TOPICS", b"0", _PAGE, b"HOME")
    return len(rows)
