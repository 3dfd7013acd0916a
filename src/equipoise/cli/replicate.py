"""`equipoise replicate`: replicate a topic over several hubs."""

from __future__ import annotations

from typing import Annotated

import typer

from equipoise.cli.move import Pin, Timeout, Topic, Wait, wait_until_there
from equipoise.cli.support.completion import hub_list
from equipoise.cli.support.hub_connection import PasswordFile, User, read_login
from equipoise.cli.support.progress import working
from equipoise.cli.support.store_options import AsJson, ClusterRecords, Region, StoreUrl, Why, run
from equipoise.cli.support.tables import show_result
from equipoise.control import operations
from equipoise.errors import SettingsError
from equipoise.limits import PARTS
from equipoise.model import Mode

Shares = Annotated[
    str,
    typer.Option(
        help="How a rate limit is split among the homes of all-subscribers, in percent, such as 50,30,20; "
        "default: equal parts."
    ),
]
Tree = Annotated[
    str,
    typer.Option(
        help="Which home follows which in mode content, such as c=b,d=b: c and d follow b; default: all follow "
        "the first one."
    ),
]


def command(
    topic: Topic,
    *,
    hubs: Annotated[
        str,
        typer.Option(
            help="Homes, separated by commas; the first one orders the messages: a,b,c.",
            autocompletion=hub_list,
        ),
    ],
    mode: Annotated[
        Mode,
        typer.Option(
            help="all-publishers: publish to all homes, subscribe at one. all-subscribers: publish to one "
            "home, subscribe at all. content: publish to the first home, subscribe at one of the others, its edges. "
            "single: one home."
        ),
    ],
    shares: Shares = "",
    tree: Tree = "",
    store: StoreUrl = "",
    region: Region = "default",
    pin: Pin = True,
    wait: Wait = False,
    timeout: Timeout = 30.0,
    why: Why = "",
    as_json: AsJson = False,
    user: User = "",
    password_file: PasswordFile = "",
) -> None:
    """Replicate a topic over several hubs: all-publishers for many subscribers, all-subscribers for many messages,
    content for many filters.

    Run it again with other hubs or another mode to change the replication while messages flow. `equipoise move` ends
    it.
    """

    async def main(metadata: ClusterRecords) -> None:
        login, name = read_login(user, password_file), topic.encode()
        homes = tuple(part.strip() for part in hubs.split(",") if part.strip())
        if not homes:
            raise SettingsError("name at least one hub: --hubs a,b,c")
        living = await metadata.living()
        plan = await operations.place(
            metadata.plans,
            name,
            homes,
            mode,
            alive=living,
            is_pinned=pin,
            shares=_parts(shares),
            followed=_followed(tree),
            unable=operations.hubs_without_content(living),
            specs=await metadata.specs.load(),
            note=why,
        )
        if wait:
            with working(f"moving {topic} to {' '.join(homes)}", is_quiet=as_json):
                await wait_until_there(metadata, name, homes[:1], login, timeout)
        show_result(
            {"topic": topic, "homes": list(homes), "mode": mode.value, "version": plan.version}
            | {"is_there": wait},
            f"{topic} has homes {' '.join(homes)} ({mode.value}) as of plan version {plan.version}",
            as_json=as_json,
        )

    run(store, region, main, is_quiet=as_json)


def _followed(text: str) -> dict[str, str]:
    """The parent of each home. Raises SettingsError."""
    followed: dict[str, str] = {}
    for part in (part.strip() for part in text.split(",") if part.strip()):
        home, mark, above = (word.strip() for word in part.partition("="))
        if not (home and mark and above):
            raise SettingsError(f"--tree {text}: say which home follows which, such as c=b,d=b")
        if home in followed:
            raise SettingsError(f"--tree {text}: {home} follows one home, not two")
        followed[home] = above
    return followed


def _parts(text: str) -> tuple[int, ...]:
    """Percentages as the plan has them. Raises SettingsError."""
    if not text:
        return ()
    try:
        percents = [float(part) for part in text.split(",")]
    except ValueError as problem:
        raise SettingsError(f"--shares {text}: give one number per home, such as 50,30,20") from problem
    # Written so that it refuses what is not a number, too.
    if not (min(percents) > 0 and abs(sum(percents) - 100.0) <= 1e-6):
        raise SettingsError(f"--shares {text}: each is above 0, and together they are 100")
    parts = [max(1, int(percent * PARTS / 100)) for percent in percents[1:]]
    return (PARTS - sum(parts), *parts)
