"""A tree in memory, stores that look at it, and a loop for one scenario."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, TypeVar

from equipoise.store import MemoryStore, MemoryTree
from equipoise.store.tree import Tree

T = TypeVar("T")

TREE = Tree("test")


class MemoryWorld:
    """Made inside the loop that uses it."""

    def __init__(self) -> None:
        # Called at every creation and deletion, with the path.
        self.on_step: Callable[[str], None] | None = None
        # The paths of nodes created or deleted between steps of a read.
        self.steps: list[str] = []
        self.tree = _ObservedTree(self)

    async def store(self) -> MemoryStore:
        return await MemoryStore(self.tree).open()

    def overwrite(self, path: str, data: bytes) -> None:
        """Change a node without an event, as damage does."""
        self.tree.set(self.tree.open_session(60, None), path, data, None)


class _ObservedTree(MemoryTree):
    """A tree that a test may observe between any two steps of its history."""

    def __init__(self, world: MemoryWorld) -> None:
        super().__init__(asyncio.get_running_loop().time)
        self._world = world

    def _tell_of_node(self, path: str) -> None:
        super()._tell_of_node(path)
        if self._world.on_step is not None:
            self._world.steps.append(path)
            self._world.on_step(path)


def run(scenario: Coroutine[Any, Any, None]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(60):
            await scenario

    asyncio.run(bounded())


async def take(values: AsyncIterator[T], count: int) -> list[T]:
    return [await anext(values) for _ in range(count)]
