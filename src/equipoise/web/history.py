"""Recent changes of the plan, read from the store once for all pages.

Always true: changes are returned in order, the latest first, and none twice.
"""

from __future__ import annotations

import asyncio

from equipoise.store import Committed, PlanStore

__all__ = ["KEPT_MAX", "PlanHistory"]

# More than the store keeps.
KEPT_MAX = 500


class PlanHistory:
    """Owned by the server of pages; changes through `latest`."""

    def __init__(self, plans: PlanStore) -> None:
        self._plans = plans
        self._kept: dict[int, Committed] = {}
        # The version up to which everything was read: the store does not have the missing ones below it either.
        self._read_to = 0
        self._reading = asyncio.Lock()

    async def latest(self, limit: int, version: int) -> list[Committed]:
        """At most `limit` changes, among them the one that made `version`, if the store still has it.

        Raises StoreError, and keeps its state then.
        """
        async with self._reading:
            if version > self._read_to:
                await self._read(version - self._read_to)
        return [self._kept[one] for one in sorted(self._kept, reverse=True)[:limit]]

    async def _read(self, count: int) -> None:
        """The last `count`; more if the store has advanced further, so that none in between is missed."""
        while True:
            found = await self._plans.history(min(count, KEPT_MAX))
            newest = max((one.change.version for one in found), default=self._read_to)
            if newest - self._read_to <= count or count >= KEPT_MAX:
                break
            count = newest - self._read_to
        self._kept.update((one.change.version, one) for one in found)
        self._read_to = newest
        for old in sorted(self._kept)[:-KEPT_MAX]:
            del self._kept[old]
