"""The leader node of controllers: ephemeral, created by the first.

Two controllers may both consider themselves leader for a short time; that is harmless, since each version of the plan
is committed by one writer only, on the version right before it.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator

import msgspec

from equipoise.errors import DamagedError, NodeExistsError, NoNodeError
from equipoise.store.contract import Node, Store
from equipoise.store.records.follow import read_reported
from equipoise.store.tree import Tree

__all__ = ["LeaderFacts", "LeaderStore"]


class LeaderFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The data of a controller. Unknown fields of a newer program are ignored."""

    name: str
    site: str = ""
    # The address for the pipeline's views: host:port.
    intake: str = ""
    # The address of its dashboard: http://host:port. Empty: none.
    http: str = ""


_facts = msgspec.msgpack.Decoder(LeaderFacts)


class LeaderStore:
    """Lead, or read the leader."""

    def __init__(self, store: Store, tree: Tree | None = None) -> None:
        self._store = store
        self._tree = tree or Tree()

    async def claim(self, facts: LeaderFacts) -> bool:
        """Try to lead in the present session; return whether this controller leads now."""
        path, data = self._tree.leader, msgspec.msgpack.encode(facts)
        await self._store.ensure(self._tree.root)
        try:
            await self._store.create(path, data, ephemeral=True)
        except NodeExistsError:
            found = await self._store.find(path)
            return found is not None and found.owner == self._store.session != 0
        return True

    async def resign(self) -> None:
        """Stop leading; no effect if another controller leads."""
        found = await self._store.find(self._tree.leader)
        if found is not None and found.owner == self._store.session:
            try:
                await self._store.delete(self._tree.leader, version=found.version)
            except NoNodeError:
                pass

    async def load(self) -> LeaderFacts | None:
        """The leader; None if there is none. Raises DamagedError."""
        return self._decode(await self._store.find(self._tree.leader))

    async def watch(self) -> AsyncGenerator[LeaderFacts | None, None]:
        """The leader, at once and at every change; continues after a loss of the store."""
        async with self._store.watch(self._tree.leader) as watch:
            while True:
                yield await read_reported(self.load)
                await watch.changed()

    def _decode(self, node: Node | None) -> LeaderFacts | None:
        if node is None:
            return None
        try:
            return _facts.decode(node.data)
        except (msgspec.DecodeError, UnicodeDecodeError) as problem:
            raise DamagedError(node.path, str(problem)) from problem
