"""A store in this process, for tests and for a cluster in one process.

The session lives until the store is closed or the tree ends it; it cannot be disconnected. `remote` is for that.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from weakref import WeakKeyDictionary

from equipoise.errors import NoNodeError
from equipoise.store.backends.channel import ChannelGoneError, StoreChannel
from equipoise.store.backends.memory_tree import MemoryTree
from equipoise.store.backends.retry import ConnectedStore
from equipoise.store.contract import Answer, Node, Read, StoreSettings, WatchKind

__all__ = ["MemoryStore", "shared_tree"]

# Trees by name, for each loop: stores on different loops are separate.
_trees: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, MemoryTree]] = WeakKeyDictionary()


def shared_tree(name: str) -> MemoryTree:
    """The tree that all `memory:NAME` stores of this loop share."""
    loop = asyncio.get_running_loop()
    return _trees.setdefault(loop, {}).setdefault(name, MemoryTree(loop.time))


class MemoryStore(ConnectedStore):
    """A session on a tree that several stores share."""

    def __init__(self, tree: MemoryTree, settings: StoreSettings | None = None) -> None:
        super().__init__(settings or StoreSettings())
        self.tree = tree
        self._open_channel: _TreeChannel | None = None

    def _start(self) -> None:
        self._open_channel = _TreeChannel(self.tree, self)
        self._on_connected(self._open_channel, asyncio.get_running_loop().time())

    async def _stop(self, is_graceful: bool) -> None:
        if self._open_channel is not None:
            self.tree.end_session(self._open_channel.session)

    def _drop(self, channel: StoreChannel) -> None:
        """Never called: pings always get replies."""

    def _forget_session(self) -> None:
        if not self._is_closed:
            # A turn later, so that LOST is reported before the next CONNECTED.
            asyncio.get_running_loop().call_soon(self._start)

    def changed(self, path: str, kind: WatchKind) -> None:
        self._on_changed(path, kind)

    def ended(self) -> None:
        self._on_lost()


class _TreeChannel:
    """Direct calls, each after a turn of the loop, so that concurrent requests interleave as over a network."""

    def __init__(self, tree: MemoryTree, store: MemoryStore) -> None:
        self._tree = tree
        self._store = store
        self.session = tree.open_session(math.inf, store)

    async def create(self, path: str, data: bytes, ephemeral: bool) -> Node:
        await self._turn()
        return self._tree.create(self.session, path, data, ephemeral)

    async def get(self, path: str) -> Node:
        await self._turn()
        return self._tree.get(path)

    async def set(self, path: str, data: bytes, version: int | None) -> Node:
        await self._turn()
        return self._tree.set(self.session, path, data, version)

    async def delete(self, path: str, version: int | None) -> None:
        await self._turn()
        self._tree.delete(self.session, path, version)

    async def children(self, path: str) -> tuple[str, ...]:
        await self._turn()
        return self._tree.children(path)

    async def arm(self, path: str, kind: WatchKind) -> None:
        await self._turn()
        self._tree.arm(self.session, path, kind)

    async def read(self, reads: Sequence[Read], watch: Read | None = None) -> tuple[Answer, ...]:
        await self._turn()
        if watch is not None:
            self._tree.arm(self.session, watch.path, watch.kind)
        return tuple(self._answer(read) for read in reads)

    def _answer(self, read: Read) -> Answer:
        try:
            return (
                self._tree.get(read.path) if read.kind is WatchKind.DATA else self._tree.children(read.path)
            )
        except NoNodeError:
            return None

    async def ping(self) -> None:
        await self._turn()

    async def sync(self) -> None:
        await self._turn()

    async def _turn(self) -> None:
        await asyncio.sleep(0)
        if not self._tree.is_live(self.session):
            raise ChannelGoneError
