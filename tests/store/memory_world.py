"""A tree in memory, stores that look at it, and a loop for one scenario."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from typing import Any, TypeVar

from equipoise.store import MemoryStore, MemoryTree
from equipoise.store.tree import Tree

T = TypeVar("T")

TREE = Tree("test")


class MemoryWorld:
    """Made inside the loop that uses it."""

    def __init__(self) -> None:
        self.tree = MemoryTree(asyncio.get_running_loop().time)

    async def store(self) -> MemoryStore:
        return await MemoryStore(self.tree).open()

    def overwrite(self, path: str, data: bytes) -> None:
        """Change a node behind everybody's back, as damage does."""
        self.tree.set(self.tree.open_session(60, None), path, data, None)


def run(scenario: Coroutine[Any, Any, None]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(60):
            await scenario

    asyncio.run(bounded())


async def take(values: AsyncIterator[T], count: int) -> list[T]:
    return [await anext(values) for _ in range(count)]
