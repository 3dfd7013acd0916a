"""`equipoise move`: have a topic live at another hub, while messages flow."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Annotated, Any

import typer

from equipoise.cli.support.completion import hub_names, topic_names
from equipoise.cli.support.hub_connection import HubConnection, PasswordFile, User, ask_all, read_login
from equipoise.cli.support.progress import working
from equipoise.cli.support.store_options import AsJson, Metadata, Region, StoreUrl, Why, run
from equipoise.cli.support.tables import show_result
from equipoise.control import operations
from equipoise.errors import DisconnectedError, EquipoiseError, SettingsError, WorldError
from equipoise.model import Mode

Topic = Annotated[str, typer.Argument(metavar="TOPIC", help="The topic's name.", autocompletion=topic_names)]
Wait = Annotated[bool, typer.Option("--wait", help="Return once it lives there.")]
Pin = Annotated[
    bool, typer.Option(help="Keep it there; without, the planner may move it for load or latency.")
]
Timeout = Annotated[float, typer.Option(help="Seconds to wait at most.")]

# Between two looks at where a topic lives.
_LOOK_S = 0.1


def command(
    topic: Topic,
    hub: Annotated[
        str, typer.Argument(metavar="[HUB]", help="Where it is to live.", autocompletion=hub_names)
    ] = "",
    *,
    store: StoreUrl = "",
    region: Region = "default",
    ring: Annotated[
        bool, typer.Option("--ring", help="Instead of a hub: back to where the ring has it.")
    ] = False,
    pin: Pin = True,
    wait: Wait = False,
    timeout: Timeout = 30.0,
    why: Why = "",
    as_json: AsJson = False,
    user: User = "",
    password_file: PasswordFile = "",
) -> None:
    """Move a topic to a hub. Subscribers and publishers stay connected, and nothing is lost or repeated.

    It stays there until it is moved again, given back with --ring or --no-pin, or its hub is drained or lost.
    """

    async def main(metadata: Metadata) -> None:
        if bool(hub) == ring:
            raise SettingsError("say where: give a HUB, or --ring")
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
            with working(f"{topic} goes to {' '.join(homes) or 'no hub'}", is_quiet=as_json):
                await wait_until_there(metadata, name, homes[:1], login, timeout)
        show_result(
            {"topic": topic, "homes": list(homes), "version": plan.version, "is_there": wait},
            f"{topic} lives at {' '.join(homes) or 'no hub'}, from plan version {plan.version} on",
            as_json=as_json,
        )

    run(store, region, main, is_quiet=as_json)


async def wait_until_there(
    metadata: Metadata,
    topic: bytes,
    homes: Collection[str],
    login: tuple[bytes, bytes] | None,
    timeout_s: float,
) -> None:
    """Return when no hub but these has the topic's stream. Raises WorldError when time is up."""

    async def question(hub: HubConnection) -> Any:
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
            f"the topic has not settled within {timeout_s:g} s; look with `equipoise topics show`"
        ) from problem


def _is_settled(is_home: bool, answer: Any) -> bool:
    """Whether a hub has the topic as it should be: open at home, remote elsewhere, or not known there at all."""
    if isinstance(answer, EquipoiseError):
        if not isinstance(answer, DisconnectedError):
            raise answer
        return False
    return answer is None or answer[1] == (b"open" if is_home else b"remote")
