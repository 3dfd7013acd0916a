"""Keep a hub's specs at least as new as the plan that it serves under.

A hub serves no topic before it has read the specs once. After that, a plan that needs newer specs waits for them, and
every hub reports the version that it has applied in the store.
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
        """`is_intact`: whether the store still holds the region; missing specs in an emptied store are ignored."""
        self._specs = SpecsStore(store, tree)
        self._apply = apply
        self._is_intact = is_intact
        self.stored = StoredSpecs(Specs(), 0)
        # Whether the specs were read at least once.
        self._is_known = False

    async def follow(self) -> None:
        """Apply every change. Runs until it is cancelled."""
        async with aclosing(self._specs.watch_with_version()) as changes:
            async for stored in changes:
                if await self._is_intact():
                    self._take(stored)

    async def reach(self, version: int) -> None:
        """Apply specs of this version or later. Raises StoreUnavailableError if the store does not have them yet."""
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
        # Also if the version is the same: a change may be visible before its version is incremented.
        self.stored = stored
        self._apply(stored)
