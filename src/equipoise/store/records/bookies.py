"""Bookies in the store: registered, known and draining ones.

The nodes `available`, `available/readonly` and `cookies` below the root of ledgers are BookKeeper's own.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from equipoise.errors import NodeExistsError, NoNodeError
from equipoise.ledger.registration import (
    BookieFacts,
    Cookie,
    decode_cookie,
    decode_facts,
    encode_cookie,
    encode_facts,
)
from equipoise.store.contract import Store, Watch, WatchKind
from equipoise.store.tree import Tree

__all__ = ["BookiesStore"]

_READ_ONLY = "readonly"


class BookiesStore:
    """Register a bookie, and list all bookies."""

    def __init__(self, store: Store, tree: Tree | None = None) -> None:
        self._store = store
        self._tree = tree or Tree()
        self._available = f"{self._tree.ledgers}/available"
        self._read_only = f"{self._available}/{_READ_ONLY}"
        self._cookies = f"{self._tree.ledgers}/cookies"

    # --- registration

    async def register(self, facts: BookieFacts) -> None:
        """Create or update the bookie's ephemeral node in the present session, and delete its node in the other
        folder.
        """
        data = encode_facts(facts)
        here, there = self._path(facts), self._path(replace(facts, is_read_only=not facts.is_read_only))
        while True:
            try:
                await self._store.create(here, data, ephemeral=True)
                break
            except NodeExistsError:
                pass
            found = await self._store.find(here)
            if found is not None and found.owner == self._store.session:
                await self._store.set(here, data, version=None)
                break
            # A session that has not expired yet left it: the directory's lock excludes another process.
            with suppress(NoNodeError):
                await self._store.delete(here)
        with suppress(NoNodeError):
            await self._store.delete(there)

    async def withdraw(self, name: str) -> None:
        for parent in (self._available, self._read_only):
            with suppress(NoNodeError):
                await self._store.delete(f"{parent}/{name}")

    def _path(self, facts: BookieFacts) -> str:
        return f"{self._read_only if facts.is_read_only else self._available}/{facts.name}"

    # --- listing

    def watch_available(self) -> Watch:
        """Watches for bookies that register or disappear."""
        return self._store.watch(self._available, WatchKind.CHILDREN)

    def watch_read_only(self) -> Watch:
        return self._store.watch(self._read_only, WatchKind.CHILDREN)

    async def load(self) -> dict[str, BookieFacts]:
        """Every registered bookie by its name. Raises DamagedError."""
        found: dict[str, BookieFacts] = {}
        for parent, is_read_only in ((self._read_only, True), (self._available, False)):
            try:
                names = await self._store.children(parent)
            except NoNodeError:
                continue
            for name in names:
                node = None if name == _READ_ONLY else await self._store.find(f"{parent}/{name}")
                if node is not None:
                    facts = decode_facts(name, node.data, is_read_only=is_read_only)
                    found[name] = facts if facts.directory else await self._with_identity(facts)
        return found

    async def registered_id(self, name: str) -> int | None:
        """Distinguishes one registration of a bookie from the next; None if it is not registered."""
        for parent in (self._available, self._read_only):
            node = await self._store.find(f"{parent}/{name}")
            if node is not None:
                return node.created_id
        return None

    async def _with_identity(self, facts: BookieFacts) -> BookieFacts:
        """The directory of a Java bookie, which does not publish it: its cookie stands for it.

        Java's bookies start only if the cookie and the files on their disks agree. An emptied one under the same name
        has a new cookie.
        """
        node = await self._store.find(f"{self._cookies}/{facts.name}")
        return facts if node is None else replace(facts, directory=f"cookie-{node.created_id}")

    # --- cookies

    async def cookie(self, name: str) -> Cookie | None:
        path = f"{self._cookies}/{name}"
        node = await self._store.find(path)
        return None if node is None else decode_cookie(path, node.data)

    async def cookies(self) -> tuple[str, ...]:
        """The names of all bookies in the cluster, alive or not."""
        try:
            return await self._store.children(self._cookies)
        except NoNodeError:
            return ()

    async def add_cookie(self, cookie: Cookie) -> None:
        await self._store.ensure(self._cookies)
        await self._store.create(f"{self._cookies}/{cookie.bookie}", encode_cookie(cookie))

    async def forget(self, name: str) -> None:
        """Remove a bookie that will not return from the cluster. Raises NoNodeError."""
        await self._store.delete(f"{self._cookies}/{name}")
        await self.set_draining(name, is_draining=False)

    # --- draining

    async def is_draining(self, name: str) -> bool:
        return await self._store.find(self._tree.draining_bookie(name)) is not None

    def watch_draining(self, name: str) -> Watch:
        return self._store.watch(self._tree.draining_bookie(name))

    async def set_draining(self, name: str, *, is_draining: bool) -> None:
        path = self._tree.draining_bookie(name)
        if is_draining:
            await self._store.ensure(path)
        else:
            with suppress(NoNodeError):
                await self._store.delete(path)
