"""`equipoise hubs`: list hubs, drain them, change their weight, and remove them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Annotated, Any

import msgspec
import typer

from equipoise.cli.support.completion import hub_names
from equipoise.cli.support.hub_connection import CommandConnection, PasswordFile, User, ask_all, read_login
from equipoise.cli.support.progress import working
from equipoise.cli.support.store_options import AsJson, ClusterRecords, Region, StoreUrl, Why, run
from equipoise.cli.support.tables import show_json, show_result, show_rows, show_table
from equipoise.control import operations
from equipoise.errors import DisconnectedError, EquipoiseError, WorldError
from equipoise.model import WEIGHT_NORMAL, Plan, quantise_weight
from equipoise.store.records.hubs import HubSeen

app = typer.Typer(help="List hubs, drain them, change their weight, and remove them.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(metavar="HUB", help="Name of the hub.", autocompletion=hub_names)]
Wait = Annotated[bool, typer.Option("--wait", help="Return once it is finished.")]
Timeout = Annotated[float, typer.Option(help="Longest time to wait, in seconds.")]

# Interval between two checks of a hub that is being drained.
_LOOK_S = 0.25
_PAGE = b"1000"
_EDGE_HEADERS = ("EDGE", "STATE", "INPUT", "OUTPUT", "DELAY", "SUBSCRIPTIONS")


@app.command("ls")
def list_hubs(*, store: StoreUrl = "", region: Region = "default", as_json: AsJson = False) -> None:
    """List hubs with state, address, site, weight and load; of edges of content topics, what they compare."""

    async def main(metadata: ClusterRecords) -> None:
        plan = await metadata.plans.load()
        rows = hub_rows(plan, await metadata.hubs.load())
        if as_json:
            show_json(rows)
            return
        headers = ("HUB", "STATE", "ADDRESS", "SITE", "RACK", "WEIGHT", "LOAD", "ENTRIES")
        show_rows(headers, rows)
        edges = [row for row in rows if row["edge"] is not None]
        if edges:
            typer.echo()
            show_table(_EDGE_HEADERS, [_edge_row(row["hub"], row["edge"]) for row in edges])

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
    """Move all topics away from a hub, so that it can be stopped without an interruption.

    The hub stays a member with weight 0. After it was stopped, `equipoise hubs forget` removes it from the plan.
    """

    async def main(metadata: ClusterRecords) -> None:
        login = read_login(user, password_file)
        plan = await operations.drain(metadata.plans, name, alive=await metadata.living(), note=why)
        words = f"hub {name} is drained as of plan version {plan.version}"
        if wait:
            try:
                async with asyncio.timeout(timeout):
                    with working(f"moving topics away from hub {name}", is_quiet=as_json) as tell:
                        await wait_until_empty(metadata, name, login, tell)
            except TimeoutError as problem:
                raise WorldError(
                    f"hub {name} still has topics after {timeout:g} s; the moves go on. See "
                    f"`equipoise topics ls --hub {name}`, or run the command again"
                ) from problem
            words += f"\nhub {name} has no topics: it can be stopped"
        show_result({"hub": name, "version": plan.version, "is_empty": wait}, words, as_json=as_json)

    run(store, region, main, is_quiet=as_json)


@app.command()
def weigh(
    name: Name,
    weight: Annotated[
        float, typer.Argument(min=0, max=16, help="New weight, in multiples of an ordinary hub; 0 to 16.")
    ],
    *,
    store: StoreUrl = "",
    region: Region = "default",
    why: Why = "",
    as_json: AsJson = False,
) -> None:
    """Change a hub's share of topics. A positive weight also ends a drain."""

    async def main(metadata: ClusterRecords) -> None:
        share = quantise_weight(weight) if weight > 0 else 0
        living = await metadata.living()
        plan = await operations.weigh(metadata.plans, name, share, alive=living, note=why)
        show_result(
            {"hub": name, "weight": share / WEIGHT_NORMAL, "version": plan.version},
            f"hub {name} has weight {weight:g} as of plan version {plan.version}",
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
    """Remove a stopped hub from the plan."""

    async def main(metadata: ClusterRecords) -> None:
        plan = await operations.forget(metadata.plans, metadata.hubs, name, note=why)
        show_result(
            {"hub": name, "version": plan.version},
            f"removed hub {name} as of plan version {plan.version}",
            as_json=as_json,
        )

    run(store, region, main, is_quiet=as_json)


def hub_rows(plan: Plan, hubs: Mapping[str, HubSeen]) -> list[dict[str, Any]]:
    """One row per hub, member of the plan or not, sorted by name."""
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
                "edge": None if alive is None or alive.edge is None else msgspec.structs.asdict(alive.edge),
            }
        )
    return rows


def _edge_row(hub: str, edge: Mapping[str, Any]) -> tuple[Any, ...]:
    ratios = f"{edge['input_ratio']:.2f}", f"{edge['output_ratio']:.2f}"
    return (hub, edge["state"], *ratios, f"{1e3 * edge['delay_s']:.2f} ms", edge["subscriptions"])


def _state(*, is_alive: bool, weight: int | None) -> str:
    if not is_alive:
        return "gone" if weight is None else "dead"
    if weight is None:
        return "waiting"
    return "serving" if weight else "drained"


async def wait_until_empty(
    metadata: ClusterRecords, name: str, login: tuple[bytes, bytes] | None, tell: Callable[[str], None]
) -> None:
    """Return when the hub is the home of no topic, or is not alive. Raises the hub's error otherwise."""
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
            tell(
                f"moving topics away from hub {name}: {answer}{' or more' if answer >= int(_PAGE) else ''} left"
            )
        await asyncio.sleep(_LOOK_S)


async def _homes(hub: CommandConnection) -> int:
    """Number of topics whose home is the hub, at most one page."""
    _, rows = await hub.ask(b"EQ.TOPICS", b"0", _PAGE, b"HOME")
    return len(rows)
