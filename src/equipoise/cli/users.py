"""`equipoise users`: list and change users, in a users file or in the store."""

from __future__ import annotations

import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any

import typer

from equipoise.access import Action, User, Users, hash_secret
from equipoise.access.file import check_user_name, parse_pattern
from equipoise.cli.support.store_options import AsJson, Region, StoreUrl
from equipoise.cli.support.tables import show_json, show_result
from equipoise.cli.support.user_lists import user_list
from equipoise.errors import SettingsError

app = typer.Typer(
    name="users",
    help="Manage users and their permissions.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)

_SALT_BYTES = 16

Name = Annotated[
    str, typer.Argument(help="User name. `default` is the user of clients that send only a password.")
]
File = Annotated[
    Path | None,
    typer.Option(
        "--file", help="Users file, as given to `equipoise hub`. Without --file and --store: users.toml."
    ),
]
PasswordStdin = Annotated[
    bool, typer.Option("--password-stdin", help="Read the password from standard input.")
]
DisconnectHubs = Annotated[
    bool,
    typer.Option(
        "--disconnect-hubs", help="Allow a change after which running hubs cannot log in on each other."
    ),
]
Patterns = list[str]


@app.command()
def add(
    name: Name,
    *,
    file: File = None,
    store: StoreUrl = "",
    region: Region = "default",
    publish: Annotated[
        Patterns | None, typer.Option(help="Topics the user may publish to, such as 'game.*'.")
    ] = None,
    subscribe: Annotated[Patterns | None, typer.Option(help="Topics the user may subscribe to.")] = None,
    create: Annotated[
        Patterns | None,
        typer.Option(help="Topics the user may create. Default: all it may publish or subscribe to."),
    ] = None,
    durable: Annotated[
        Patterns | None,
        typer.Option(help="Topics the user may subscribe to durably and read with consumer groups."),
    ] = None,
    filters: Annotated[
        Patterns | None,
        typer.Option("--filter", help="Topics the user may filter by content."),
    ] = None,
    operate: Annotated[
        Patterns | None, typer.Option(help="Topics the user may operate; '*': the whole hub.")
    ] = None,
    observe: Annotated[
        Patterns | None, typer.Option(help="Topics whose telemetry the user may read; '*': the whole hub's.")
    ] = None,
    link: Annotated[
        Patterns | None, typer.Option(help="'*' lets hubs log in on other hubs as this user.")
    ] = None,
    certificate: Annotated[
        Patterns | None, typer.Option(help="Common name of the user's client certificate.")
    ] = None,
    nopass: Annotated[
        bool, typer.Option("--nopass", help="No password: anonymous access, or by certificate only.")
    ] = False,
    password_stdin: PasswordStdin = False,
    disconnect_hubs: DisconnectHubs = False,
    as_json: AsJson = False,
) -> None:
    """Add a user. Everything that no option grants is denied."""
    with _errors_told():
        check_user_name(name)
        users = user_list(file, store, region, is_quiet=as_json)
        _require_new(users.read(may_be_new=True), name)
        wanted = {
            # Which user is first is chance, also after a restart: a user must not be refused because another was later.
            Action.CREATE: _union(publish, subscribe) if create is None else create,
            Action.PUBLISH: publish,
            Action.SUBSCRIBE: subscribe,
            Action.DURABLE: durable,
            Action.FILTER: filters,
            Action.OPERATE: operate,
            Action.OBSERVE: observe,
            Action.LINK: link,
        }
        grants = {action: tuple(map(parse_pattern, texts)) for action, texts in wanted.items() if texts}
        user = User(
            name=name,
            secret=None if nopass else _ask_secret(name, password_stdin),
            certificates=tuple(certificate or ()),
            grants=MappingProxyType(grants),
            is_anonymous=nopass and not certificate,
        )
        users.change(
            lambda known: _require_new(known, name).adding(user), may_disconnect_hubs=disconnect_hubs
        )
    show_result({"added": name, "to": str(users)}, f"added {name} to {users}", as_json=as_json)


@app.command("ls")
def list_users(
    *, file: File = None, store: StoreUrl = "", region: Region = "default", as_json: AsJson = False
) -> None:
    """List users and their permissions."""
    with _errors_told():
        users = user_list(file, store, region, is_quiet=as_json).read()
    if as_json:
        show_json([_facts(user) for user in users])
        return
    for user in users:
        typer.echo(f"{user.name}  ({_proof(user)})")
        for action, patterns in user.grants.items():
            typer.echo(f"    {action:<10} {' '.join(glob.pattern.decode() for glob in patterns)}")


@app.command("rm")
def remove(
    name: Name,
    *,
    file: File = None,
    store: StoreUrl = "",
    region: Region = "default",
    disconnect_hubs: DisconnectHubs = False,
    as_json: AsJson = False,
) -> None:
    """Remove a user."""
    with _errors_told():
        users = user_list(file, store, region, is_quiet=as_json)
        _require(users.read(), name)
        users.change(
            lambda known: known.without(_require(known, name).name), may_disconnect_hubs=disconnect_hubs
        )
    show_result({"removed": name, "from": str(users)}, f"removed {name} from {users}", as_json=as_json)


@app.command()
def passwd(
    name: Name,
    *,
    file: File = None,
    store: StoreUrl = "",
    region: Region = "default",
    password_stdin: PasswordStdin = False,
    disconnect_hubs: DisconnectHubs = False,
    as_json: AsJson = False,
) -> None:
    """Change the password of a user."""
    with _errors_told():
        users = user_list(file, store, region, is_quiet=as_json)
        _require(users.read(), name)
        secret = _ask_secret(name, password_stdin)
        users.change(
            lambda known: known.adding(replace(_require(known, name), secret=secret, is_anonymous=False)),
            may_disconnect_hubs=disconnect_hubs,
        )
    words = f"changed the password of {name} in {users}"
    show_result({"changed": name, "in": str(users)}, words, as_json=as_json)


@contextmanager
def _errors_told() -> Iterator[None]:
    """Print errors to standard error and exit with 1, without a traceback."""
    try:
        yield
    except FileNotFoundError as error:
        words = f"there is no users file {error.filename}: `equipoise users add` makes one"
        typer.echo(f"equipoise users: {words}", err=True)
        raise typer.Exit(1) from error
    except OSError as error:
        typer.echo(f"equipoise users: cannot use {error.filename}: {error.strerror}", err=True)
        raise typer.Exit(1) from error
    except SettingsError as error:
        typer.echo(f"equipoise users: {error}", err=True)
        raise typer.Exit(1) from error


def _require_new(users: Users, name: str) -> Users:
    if users.get(name) is not None:
        raise SettingsError(f"user {name!r} exists: remove it first with `equipoise users rm {name}`")
    return users


def _require(users: Users, name: str) -> User:
    user = users.get(name)
    if user is None:
        raise SettingsError(f"there is no user {name!r}: `equipoise users ls` lists them")
    return user


def _proof(user: User) -> str:
    ways = ["anonymous"] if user.is_anonymous else []
    ways += ["password"] if user.secret is not None else []
    ways += [f"certificate {common_name}" for common_name in user.certificates]
    return ", ".join(ways)


def _facts(user: User) -> dict[str, Any]:
    """Everything but the secret."""
    return {
        "user": user.name,
        "is_anonymous": user.is_anonymous,
        "has_password": user.secret is not None,
        "certificates": list(user.certificates),
        "grants": {
            str(action): [glob.pattern.decode() for glob in patterns]
            for action, patterns in user.grants.items()
        },
    }


def _union(*granted: Patterns | None) -> Patterns:
    """Each pattern once, in the order given."""
    return list(dict.fromkeys(pattern for patterns in granted for pattern in patterns or ()))


def _ask_secret(name: str, from_stdin: bool) -> str:
    if from_stdin:
        password = sys.stdin.buffer.readline().rstrip(b"\r\n")
    else:
        password = typer.prompt(f"Password for {name}", hide_input=True, confirmation_prompt=True).encode()
    return hash_secret(password, salt=secrets.token_bytes(_SALT_BYTES))
