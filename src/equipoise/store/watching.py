"""Watches of one store: a flag per watch, raised by whatever may have changed.

Servers tell of a change once and forget (ZooKeeper's watches). `changed` therefore asks anew before it returns, so
that nothing falls between two reads. While the connection is gone nothing is heard; the store raises all flags when it
is back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Self

from equipoise.errors import StoreUnavailableError
from equipoise.store.contract import WatchKind

__all__ = ["FlagWatch", "Watches"]

Arm = Callable[[str, WatchKind], Awaitable[None]]


class FlagWatch:
    """Made by `Watches.make`; the contract is `contract.Watch`."""

    def __init__(self, owner: Watches, path: str, kind: WatchKind, arm: Arm) -> None:
        self.path = path
        self.kind = kind
        self._owner = owner
        self._arm = arm
        self._flag = asyncio.Event()

    async def __aenter__(self) -> Self:
        self._owner.add(self)
        try:
            await self._arm(self.path, self.kind)
        except BaseException:
            self._owner.discard(self)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._owner.discard(self)

    def raise_flag(self) -> None:
        self._flag.set()

    async def changed(self, timeout_s: float | None = None) -> bool:
        try:
            async with asyncio.timeout(timeout_s):
                while not await self._told_once():
                    pass
        except TimeoutError:
            return False
        return True

    async def _told_once(self) -> bool:
        await self._flag.wait()
        # Lowered before arming: what happens from here on raises it again.
        self._flag.clear()
        try:
            await self._arm(self.path, self.kind)
        except StoreUnavailableError:
            # Whatever has changed will be told with the reconnection, which raises every flag.
            return False
        except BaseException:
            # The change has not been told yet.
            self._flag.set()
            raise
        return True


class Watches:
    """All watches of a store, by what they look at."""

    def __init__(self) -> None:
        # Dictionaries keep the order in which watches were made; a set would wake readers in any order.
        self._watches: dict[tuple[WatchKind, str], dict[FlagWatch, None]] = {}

    def make(self, path: str, kind: WatchKind, arm: Arm) -> FlagWatch:
        return FlagWatch(self, path, kind, arm)

    def add(self, watch: FlagWatch) -> None:
        self._watches.setdefault((watch.kind, watch.path), {})[watch] = None

    def discard(self, watch: FlagWatch) -> None:
        watches = self._watches.get((watch.kind, watch.path))
        if watches is not None:
            watches.pop(watch, None)
            if not watches:
                del self._watches[watch.kind, watch.path]

    def raise_flags(self, path: str, kind: WatchKind) -> None:
        for watch in self._watches.get((kind, path), {}):
            watch.raise_flag()

    def raise_all(self) -> None:
        for watches in self._watches.values():
            for watch in watches:
                watch.raise_flag()
