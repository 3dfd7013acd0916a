"""Send commands to hubs, over one connection each.

`on_hub` makes a CLI command from a coroutine that uses one hub. If one of several hubs (`ask_all`) is unreachable or
refuses, the others still reply: the result of that hub is its error.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from functools import wraps
from inspect import Parameter, signature
from pathlib import Path
from typing import Annotated, Any, TypeVar

import hiredis
import typer

from equipoise.cli.support.failures import exit_on_failure
from equipoise.errors import DisconnectedError, EquipoiseError, ProtocolError, RefusedError, SettingsError
from equipoise.model.address import split_address
from equipoise.resp.replies import spell
from equipoise.store.records.hubs import HubSeen

# A hub replies within milliseconds; a hub that does not must not delay the operator.
_PATIENCE_S = 5.0
_READ_BYTES = 64 * 1024
T = TypeVar("T")

User = Annotated[
    str,
    typer.Option("--user", envvar="EQUIPOISE_USER", help="User to log in as on the hubs."),
]
PasswordFile = Annotated[
    str,
    typer.Option(
        "--password-file", envvar="EQUIPOISE_PASSWORD_FILE", help="File with the password of --user."
    ),
]

HubAddress = Annotated[str, typer.Option("--hub", metavar="HOST:PORT", help="Hub to connect to.")]


class CommandConnection:
    """One connection to a hub."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._replies = hiredis.Reader()

    async def ask(self, *words: bytes) -> Any:
        """The reply. Raises RefusedError, or DisconnectedError."""
        self._writer.write(spell(words))
        while (reply := self._replies.gets()) is False:
            data = await self._reader.read(_READ_BYTES)
            if not data:
                raise DisconnectedError("the hub has closed the connection")
            self._replies.feed(data)
        if isinstance(reply, hiredis.ReplyError):
            raise RefusedError(str(reply))
        return reply


def on_hub(command: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """A command of the CLI from a coroutine: its first parameter is the connection to a hub, all others are parameters
    of the command. The options of the hub's address and login stand before its own last option."""
    taken = signature(command, eval_str=True)
    _, *own = taken.parameters.values()
    parameters = [*own[:-1], *_HUB_OPTIONS, own[-1]]

    @wraps(command)
    def run(*, hub: str, user: str, password_file: str, **given: Any) -> None:
        async def connect_and_run() -> None:
            async with connected_to(hub, read_login(user, password_file)) as connection:
                await command(connection, **given)

        with exit_on_failure():
            asyncio.run(connect_and_run())

    run.__signature__ = taken.replace(parameters=parameters)  # type: ignore[attr-defined]  # typer reads it
    run.__annotations__ = {each.name: each.annotation for each in parameters}
    return run


_HUB_OPTIONS = tuple(
    Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
    for name, annotation, default in (
        ("hub", HubAddress, "127.0.0.1:6399"),
        ("user", User, ""),
        ("password_file", PasswordFile, ""),
    )
)


async def ask_all(
    hubs: Mapping[str, HubSeen],
    login: tuple[bytes, bytes] | None,
    question: Callable[[CommandConnection], Awaitable[T]],
) -> dict[str, T | EquipoiseError]:
    """Every hub's reply, or its error."""
    answers = await asyncio.gather(*(_asked(hub.facts.address, login, question) for hub in hubs.values()))
    return dict(zip(hubs, answers, strict=True))


async def _asked(
    address: str, login: tuple[bytes, bytes] | None, question: Callable[[CommandConnection], Awaitable[T]]
) -> T | EquipoiseError:
    host, _, port = address.rpartition(":")
    writer: asyncio.StreamWriter | None = None
    try:
        async with asyncio.timeout(_PATIENCE_S):
            reader, writer = await asyncio.open_connection(host.strip("[]"), int(port))
            hub = CommandConnection(reader, writer)
            if login is not None:
                await hub.ask(b"AUTH", *login)
            return await question(hub)
    except EquipoiseError as problem:
        return problem
    except (OSError, TimeoutError) as problem:
        return DisconnectedError(f"{address} does not answer: {problem or 'no reply in time'}")
    except hiredis.ProtocolError as problem:
        return ProtocolError(str(problem))
    finally:
        if writer is not None:
            writer.transport.abort()


def read_login(user: str, password_file: str) -> tuple[bytes, bytes] | None:
    """Raises SettingsError."""
    if not user:
        return None
    if not password_file:
        raise SettingsError("--user needs --password-file")
    try:
        return user.encode(), Path(password_file).read_bytes().rstrip(b"\r\n")
    except OSError as problem:
        raise SettingsError(f"cannot read the password file {password_file}: {problem.strerror}") from problem


@asynccontextmanager
async def connected_to(hub: str, login: tuple[bytes, bytes] | None) -> AsyncIterator[CommandConnection]:
    """A connection to the hub at HOST:PORT. Raises SettingsError and DisconnectedError."""
    host, port = split_address(hub) or ("", 0)
    if not port:
        raise SettingsError(f"--hub {hub}: give HOST:PORT, such as 127.0.0.1:6399")
    try:
        async with asyncio.timeout(_PATIENCE_S):
            reader, writer = await asyncio.open_connection(host, port)
    except (OSError, TimeoutError) as problem:
        raise DisconnectedError(f"no hub answers at {hub}") from problem
    try:
        connection = CommandConnection(reader, writer)
        if login is not None:
            await connection.ask(b"AUTH", *login)
        yield connection
    finally:
        writer.transport.abort()
