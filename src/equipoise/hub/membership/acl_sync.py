"""Keep a hub's access rules at least as new as the plan that it serves under.

The users in the store are authoritative; a users file only seeds them. New rules take effect for all connected clients
at once, like those of a reloaded users file.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from equipoise.access import Users
from equipoise.errors import StoreUnavailableError
from equipoise.store.contract import Store
from equipoise.store.records.users import StoredUsers, UsersStore
from equipoise.store.tree import Tree

__all__ = ["AclSync", "first_rules"]

log = logging.getLogger("equipoise.hub")


async def first_rules(store: Store, tree: Tree, seed: Users) -> StoredUsers:
    """The rules to start a hub with. `seed` is stored if the store has none; open access is not stored."""
    found = await UsersStore(store, tree).seed(seed)
    if not seed.is_open and found.users.version != seed.version:
        log.warning(
            "the users file is not used: the store has users of access version %d; change them with "
            "`equipoise users --store`",
            found.access_version,
        )
    return found


class AclSync:
    """Owned by one membership. `apply` puts users in force."""

    def __init__(
        self, store: Store, tree: Tree, apply: Callable[[Users], None], *, access_version: int
    ) -> None:
        self._users = UsersStore(store, tree)
        self._apply = apply
        self.access_version = access_version

    async def follow(self) -> None:
        """Apply every change. Runs until it is cancelled."""
        async for stored in self._users.watch():
            self._take(stored)

    async def reach(self, access_version: int) -> None:
        """Apply rules of this version or later. Raises StoreUnavailableError if the store does not have them yet."""
        if self.access_version < access_version:
            self._take(await self._users.load())
        if self.access_version < access_version:
            raise StoreUnavailableError(f"access rules of version {access_version} are not in the store yet")

    def _take(self, stored: StoredUsers) -> None:
        if stored.access_version <= self.access_version:
            return
        self.access_version = stored.access_version
        self._apply(stored.users)
        log.info(
            "users of access version %d are in force: %d users", stored.access_version, len(stored.users)
        )
