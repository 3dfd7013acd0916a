"""Watches of one store: a flag per watch, raised by whatever may have changed.

Servers tell of a change once and forget (ZooKeeper's watches). `changed` therefore asks anew before it returns, so
that nothing falls between two reads; `changed_to` asks together with the reads, which come behind it. While the
connection is gone nothing is heard; the store raises all flags when it is back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from types import TracebackType
from typing import Protocol, Self, TypeVar

from equipoise.errors import StoreUnavailableError
from equipoise.store.contract import Answer, Read, WatchKind

__all__ = ["FlagWatch", "Watches"]

T = TypeVar("T")
Arm = Callable[[str, WatchKind], Awaitable[None]]


class ArmAndRead(Protocol):
    """Arm a watch and read, in this order, over one connection."""

    async def __call__(self, reads: Sequence[Read], watch: Read | None = None) -> tuple[Answer, ...]: ...


class FlagWatch:
    """Made by `Watches.make`; the contract is `contract.Watch`."""

    def __init__(self, owner: Watches, path: str, kind: WatchKind, arm: Arm, read: ArmAndRead) -> None:
        self.path = path
        self.kind = kind
        self._owner = owner
        self._arm = arm
        self._read = read
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
                await self._told(lambda: self._arm(self.path, self.kind))
        except TimeoutError:
            return False
        return True

    async def changed_to(self, reads: Callable[[], Sequence[Read]]) -> tuple[Answer, ...]:
        return await self._told(lambda: self._read(reads(), Read(self.path, self.kind)))

    async def _told(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Wait for the flag and ask; again if the store does not answer in time."""
        while True:
            await self._flag.wait()
            # Lowered before asking: what happens from here on raises it again.
            self._flag.clear()
            try:
                return await ask()
            except StoreUnavailableError:
                # The next try waits for the store, too.
                self._flag.set()
            except BaseException:
                # The change has not been told yet.
                self._flag.set()
                raise


class Watches:
    """All watches of a store, by what they look at."""

    def __init__(self) -> None:
        # Dictionaries keep the order in which watches were made; a set would wake readers in any order.
        self._watches: dict[tuple[WatchKind, str], dict[FlagWatch, None]] = {}

    def make(self, path: str, kind: WatchKind, arm: Arm, read: ArmAndRead) -> FlagWatch:
        return FlagWatch(self, path, kind, arm, read)

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
