"""Users in a users file, or in the store.

Always true: a list is replaced as a whole, and only by a valid one; a failure leaves it unchanged. A file is readable
by its owner only.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from equipoise.access import Users, parse_users, render_users
from equipoise.access.file import FILE_BYTES_MAX
from equipoise.access.hub_logins import check_links
from equipoise.cli.support.store_options import ClusterRecords, run
from equipoise.errors import BadVersionError, SettingsError
from equipoise.store.records.users import publish_users

__all__ = ["UserList", "user_list"]

FILE_DEFAULT = Path("users.toml")
Change = Callable[[Users], Users]


class UserList(Protocol):
    """A list of users; `str` names its place."""

    def read(self, *, may_be_new: bool = False) -> Users:
        """Raises SettingsError or OSError; a missing list is empty if `may_be_new`."""
        ...

    def change(self, make: Change, *, may_disconnect_hubs: bool = False) -> None:
        """Replace the list by the result of `make`. Raises SettingsError if that would disconnect running hubs."""
        ...


def user_list(file: Path | None, store: str, region: str, *, is_quiet: bool = False) -> UserList:
    """The list in the store if one is given and no file is. `is_quiet`: a slow store is not reported."""
    if store and file is None:
        return UsersInStore(store, region, is_quiet=is_quiet)
    return UsersFile(file or FILE_DEFAULT)


class UsersFile:
    """A running hub reads a change on SIGHUP."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __str__(self) -> str:
        return str(self._path)

    def read(self, *, may_be_new: bool = False) -> Users:
        if may_be_new and not self._path.exists():
            return Users(())
        if self._path.stat().st_size > FILE_BYTES_MAX:
            raise SettingsError(f"{self._path} is over {FILE_BYTES_MAX} bytes: is it a users file?")
        try:
            return parse_users(self._path.read_text(encoding="utf-8"))
        except UnicodeDecodeError as error:
            raise SettingsError(f"{self._path} is not UTF-8 text: {error}") from error

    def change(self, make: Change, *, may_disconnect_hubs: bool = False) -> None:
        """Atomically: a hub that reloads reads either the old file or the new one."""
        text = render_users(make(self.read(may_be_new=True)))
        parse_users(text)  # A text that the hub would reject is never written.
        target = self._path.resolve()
        draft = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
        try:
            with os.fdopen(
                os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8"
            ) as out:
                out.write(text)
                out.flush()
                os.fsync(out.fileno())
            draft.replace(target)
        finally:
            draft.unlink(missing_ok=True)


class UsersInStore:
    """All hubs apply a change at once."""

    def __init__(self, url: str, region: str, *, is_quiet: bool) -> None:
        self._url = url
        self._is_quiet = is_quiet
        self._region = region

    def __str__(self) -> str:
        return f"the store {self._url}"

    def read(self, *, may_be_new: bool = False) -> Users:
        found: list[Users] = []

        async def main(metadata: ClusterRecords) -> None:
            stored = await metadata.users.load()
            if stored.access_version == 0 and not may_be_new:
                raise SettingsError(f"there are no users in {self}: every client has full access")
            found.append(Users(()) if stored.access_version == 0 else stored.users)

        run(self._url, self._region, main, is_quiet=self._is_quiet)
        return found[0]

    def change(self, make: Change, *, may_disconnect_hubs: bool = False) -> None:
        async def main(metadata: ClusterRecords) -> None:
            while True:
                stored = await metadata.users.load()
                users = make(Users(()) if stored.access_version == 0 else stored.users)
                parse_users(render_users(users))
                if not may_disconnect_hubs:
                    logins = {name: seen.facts.login for name, seen in (await metadata.living()).items()}
                    check_links(logins, stored.users, users)
                try:
                    await publish_users(
                        metadata.users, metadata.plans, users, access_version=stored.access_version
                    )
                    return
                except BadVersionError:
                    # Another writer changed them meanwhile: apply the change to the new list.
                    continue

        run(self._url, self._region, main, is_quiet=self._is_quiet)
