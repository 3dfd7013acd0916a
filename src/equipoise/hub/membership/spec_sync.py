"""Keep a hub's specs at least as new as the plan it serves under.

A hub serves nothing before it has read the specs once. From then on a plan that needs newer ones waits for them, and
every hub says in the store which version it serves under.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from contextlib import aclosing

from equipoise.errors import StoreUnavailableError
from equipoise.model import Specs
from equipoise.store.contract import Store
from equipoise.store.records.specs import SpecsStore, StoredSpecs
from equipoise.store.tree import Tree

__all__ = ["SpecSync"]

log = logging.getLogger("equipoise.hub")


class SpecSync:
    """Owned by one membership. `apply` puts specs in force."""

    def __init__(
        self,
        store: Store,
        tree: Tree,
        apply: Callable[[StoredSpecs], None],
        is_intact: Callable[[], Awaitable[bool]],
    ) -> None:
        """`is_intact`: whether the store still has what was stored; an emptied one says nothing about specs."""
        self._specs = SpecsStore(store, tree)
        self._apply = apply
        self._is_intact = is_intact
        self.stored = StoredSpecs(Specs(), 0)
        # Whether they were read at all.
        self._is_known = False

    async def follow(self) -> None:
        """Apply every change, for ever."""
        async with aclosing(self._specs.watch_with_version()) as changes:
            async for stored in changes:
                if await self._is_intact():
                    self._take(stored)

    async def reach(self, version: int) -> None:
        """Have specs of this version or later. Raises StoreUnavailableError if they cannot be read yet."""
        if not self._is_known or self.stored.version < version:
            self._take(await self._specs.load_with_version())
        if self.stored.version < version:
            raise StoreUnavailableError(f"specs of version {version} are not in the store yet")

    def _take(self, stored: StoredSpecs) -> None:
        if stored.version < self.stored.version:
            return
        if stored.version > self.stored.version:
            log.info("specs of version %d are in force: %d specs", stored.version, len(stored.specs))
        self._is_known = True
        # Also if the version is the same: they may have a change whose version is about to be counted.
        self.stored = stored
        self._apply(stored)
