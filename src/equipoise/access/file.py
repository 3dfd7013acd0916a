"""Read and write the users file.

    [users.alice]
    secret = "scrypt$16384$8$1$…$…"
    certificates = ["alice.example"]
    publish = ["game.*"]
    subscribe = ["game.*", "news"]

Always true of the result: every name, pattern and secret is within its bounds, so callers need not check again. Text
in, text out; the caller opens files.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Iterable
from types import MappingProxyType
from typing import TypeVar

from equipoise.access.secret import check_secret
from equipoise.access.user import Action, User
from equipoise.access.users import DEFAULT_USER, Users
from equipoise.errors import SettingsError
from equipoise.model import Glob

# Four times the size of 1,000 users of 1 kB; a larger file is a mistake or an attack on the reload.
FILE_BYTES_MAX = 4 * 1024 * 1024
USERS_MAX = 10_000
# Each publish outside a hub's cache checks them one by one.
PATTERNS_MAX = 256
CERTIFICATES_MAX = 64
# The bounds of every pattern a hub accepts from a client.
PATTERN_BYTES_MAX = 256
PATTERN_WILDCARDS_MAX = 8
COMMON_NAME_CHARS_MAX = 64  # ub-common-name, RFC 5280
# The name is printed in CLIENT INFO, where a space or an equals sign would forge a field.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")

_HEADER = """\
# Users of an Equipoise hub. `equipoise users` rewrites this file and does not keep comments.
# Keep it private: a reader of it can try passwords against it.
"""
_T = TypeVar("_T")
_KEYS = ("secret", "nopass", "certificates", *Action)


def parse_users(text: str) -> Users:
    """Read the text of a users file. Raises SettingsError with the user, the key and the remedy."""
    if len(text.encode()) > FILE_BYTES_MAX:
        raise SettingsError(f"the users file is over {FILE_BYTES_MAX} bytes: remove users or patterns")
    try:
        document = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise SettingsError(f"the users file is not TOML: {error}") from error
    tables = document.pop("users", {})
    if document:
        raise SettingsError(
            f"the users file: unknown key {_first(document)!r}; it has [users.NAME] tables only"
        )
    if not isinstance(tables, dict):
        raise SettingsError("the users file: `users` is not a table; write [users.NAME] for each user")
    if len(tables) > USERS_MAX:
        raise SettingsError(f"the users file has {len(tables)} users; at most {USERS_MAX} are read")
    return Users(_parse_user(name, table) for name, table in tables.items())


def render_users(users: Iterable[User]) -> str:
    """Write the text of a users file, which `parse_users` reads back to the same users."""
    return "\n".join((_HEADER, *(_render_user(user) for user in users)))


def check_user_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise SettingsError(
            f"user {name!r}: a name has 1 to 64 letters, digits or . _ @ - and starts with a letter or digit"
        )


def parse_pattern(text: str) -> Glob:
    """A grant's pattern, within the bounds of a pattern that a client may send."""
    pattern = text.encode()
    if len(pattern) > PATTERN_BYTES_MAX:
        raise SettingsError(f"pattern of {len(pattern)} bytes: use at most {PATTERN_BYTES_MAX}")
    glob = Glob(pattern)
    if glob.wildcards > PATTERN_WILDCARDS_MAX:
        raise SettingsError(
            f"pattern {text!r} has {glob.wildcards} wildcards: use at most {PATTERN_WILDCARDS_MAX}"
        )
    return glob


def _parse_user(name: str, table: object) -> User:
    check_user_name(name)
    if not isinstance(table, dict):
        raise SettingsError(f"user {name!r} is not a table; write [users.{name}] and its keys below")
    unknown = [key for key in table if key not in _KEYS]
    if unknown:
        raise SettingsError(f"user {name!r}: unknown key {unknown[0]!r}; the keys are {', '.join(_KEYS)}")
    user = User(
        name=name,
        secret=_parse_secret(name, table.get("secret")),
        certificates=_parse_strings(name, "certificates", table, _common_name, CERTIFICATES_MAX),
        grants=MappingProxyType(
            {
                action: _parse_strings(name, action, table, parse_pattern, PATTERNS_MAX)
                for action in Action
                if action in table
            }
        ),
        is_anonymous=_parse_nopass(name, table.get("nopass", False)),
    )
    _check_proof(user)
    return user


def _parse_secret(name: str, value: object) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str):
        raise SettingsError(
            f"user {name!r}: secret is not a string; make one with `equipoise users passwd {name}`"
        )
    try:
        check_secret(value)
    except SettingsError as error:
        raise SettingsError(f"user {name!r}: secret: {error}") from error
    return value


def _parse_nopass(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise SettingsError(f"user {name!r}: nopass is true or false, not {value!r}")
    if value and name != DEFAULT_USER:
        raise SettingsError(
            f"user {name!r}: nopass is only for the user {DEFAULT_USER!r}; give this one a secret"
        )
    return value


def _parse_strings(
    name: str, key: str, table: dict[str, object], parse: Callable[[str], _T], count_max: int
) -> tuple[_T, ...]:
    values = table.get(key, [])
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise SettingsError(f'user {name!r}: {key} is not a list of strings; write {key} = ["…", "…"]')
    if len(values) > count_max:
        raise SettingsError(f"user {name!r}: {key} has {len(values)} entries; use at most {count_max}")
    try:
        return tuple(parse(value) for value in values)
    except SettingsError as error:
        raise SettingsError(f"user {name!r}: {key}: {error}") from error


def _common_name(text: str) -> str:
    if not 1 <= len(text) <= COMMON_NAME_CHARS_MAX:
        raise SettingsError(f"the common name {text!r} must have 1 to {COMMON_NAME_CHARS_MAX} characters")
    return text


def _check_proof(user: User) -> None:
    """Reject a user that no client can log in as, and a password that is never checked."""
    if user.is_anonymous and user.secret is not None:
        raise SettingsError(f"user {user.name!r}: it has both secret and nopass = true; remove one of them")
    if not user.is_anonymous and user.secret is None and not user.certificates:
        raise SettingsError(
            f"user {user.name!r}: no client can log in; "
            f"run `equipoise users passwd {user.name}` or add certificates"
        )


def _render_user(user: User) -> str:
    lines = [f"[users.{_quote(user.name)}]"]
    if user.secret is not None:
        lines.append(f"secret = {_quote(user.secret)}")
    if user.is_anonymous:
        lines.append("nopass = true")
    if user.certificates:
        lines.append(_render_list("certificates", user.certificates))
    for action in Action:
        if patterns := user.grants.get(action):
            lines.append(_render_list(action, [glob.pattern.decode() for glob in patterns]))
    return "\n".join(lines) + "\n"


def _render_list(key: str, values: Iterable[str]) -> str:
    return f"{key} = [{', '.join(map(_quote, values))}]"


def _quote(text: str) -> str:
    """A TOML basic string. JSON's escapes are TOML's, except for DEL, which JSON does not escape."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _first(table: dict[str, object]) -> str:
    return next(iter(table))
