"""`equipoise move`: move a topic to another hub while messages flow."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Annotated, Any

import typer

from equipoise.cli.support.completion import hub_names, topic_names
from equipoise.cli.support.hub_connection import CommandConnection, PasswordFile, User, ask_all, read_login
from equipoise.cli.support.progress import working
from equipoise.cli.support.store_options import AsJson, ClusterRecords, Region, StoreUrl, Why, run
from equipoise.cli.support.tables import show_result
from equipoise.control import operations
from equipoise.errors import DisconnectedError, EquipoiseError, SettingsError, WorldError
from equipoise.model import Mode

Topic = Annotated[str, typer.Argument(metavar="TOPIC", help="Topic name.", autocompletion=topic_names)]
Wait = Annotated[bool, typer.Option("--wait", help="Return once the move is finished.")]
Pin = Annotated[
    bool,
    typer.Option(
        help="--pin: no policy moves the topic again. --no-pin: move it, but let the planner move it again."
    ),
]
Timeout = Annotated[float, typer.Option(help="Longest time to wait, in seconds.")]

# Interval between two checks of the topic's state.
_LOOK_S = 0.1


def command(
    topic: Topic,
    hub: Annotated[str, typer.Argument(metavar="[HUB]", help="The new home.", autocompletion=hub_names)] = "",
    *,
    store: StoreUrl = "",
    region: Region = "default",
    ring: Annotated[
        bool, typer.Option("--ring", help="Remove the plan entry: the hash ring places the topic again.")
    ] = False,
    pin: Pin = True,
    wait: Wait = False,
    timeout: Timeout = 30.0,
    why: Why = "",
    as_json: AsJson = False,
    user: User = "",
    password_file: PasswordFile = "",
) -> None:
    """Move a topic to a hub. Clients stay connected; no message is lost or duplicated.

    The topic is pinned there until it is moved again, unpinned with --ring or --no-pin, or its hub is drained or
    dies.
    """

    async def main(metadata: ClusterRecords) -> None:
        if bool(hub) == ring:
            raise SettingsError("give a HUB, or --ring")
        login, name = read_login(user, password_file), topic.encode()
        living = await metadata.living()
        if ring:
            plan = await operations.unplace(metadata.plans, name, note=why)
        else:
            plan = await operations.place(
                metadata.plans, name, (hub,), Mode.SINGLE, alive=living, is_pinned=pin, note=why
            )
        homes = plan.home_of(name, living).homes
        if wait:
            with working(f"moving {topic} to {' '.join(homes) or 'no hub'}", is_quiet=as_json):
                await wait_until_there(metadata, name, homes[:1], login, timeout)
        show_result(
            {"topic": topic, "homes": list(homes), "version": plan.version, "is_there": wait},
            f"{topic} has home {' '.join(homes) or 'none'} as of plan version {plan.version}",
            as_json=as_json,
        )

    run(store, region, main, is_quiet=as_json)


async def wait_until_there(
    metadata: ClusterRecords,
    topic: bytes,
    homes: Collection[str],
    login: tuple[bytes, bytes] | None,
    timeout_s: float,
) -> None:
    """Return when the topic is open at its home and at no other hub. Raises WorldError after the time-out."""

    async def question(hub: CommandConnection) -> Any:
        return (await hub.ask(b"EQ.TOPIC", topic))[0]

    try:
        async with asyncio.timeout(timeout_s):
            while True:
                answers = await ask_all(await metadata.living(), login, question)
                if all(_is_settled(name in homes, answer) for name, answer in answers.items()):
                    return
                await asyncio.sleep(_LOOK_S)
    except TimeoutError as problem:
        raise WorldError(
            f"the move is not finished after {timeout_s:g} s; see `equipoise topics show`"
        ) from problem


def _is_settled(is_home: bool, answer: Any) -> bool:
    """Whether the topic is in its final state at a hub: open at the home, remote elsewhere, or unknown."""
    if isinstance(answer, EquipoiseError):
        if not isinstance(answer, DisconnectedError):
            raise answer
        return False
    return answer is None or answer[1] == (b"open" if is_home else b"remote")
