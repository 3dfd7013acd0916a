"""The leader node of controllers: ephemeral, created by the first.

Two controllers may both think that they lead, for as long as news takes; no harm is done, since a plan is committed on
the version right before it by one writer only.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator

import msgspec

from equipoise.errors import DamagedError, NodeExistsError, NoNodeError, StoreUnavailableError
from equipoise.store.contract import Node, Store
from equipoise.store.tree import Tree

__all__ = ["LeaderFacts", "LeaderStore"]


class LeaderFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What a controller says of itself. A newer program's fields are passed over."""

    name: str
    site: str = ""
    # Where the pipeline sends the view: host:port.
    intake: str = ""
    # Where people look: http://host:port. Empty: it serves no pages.
    http: str = ""


_facts = msgspec.msgpack.Decoder(LeaderFacts)


class LeaderStore:
    """Lead, or see who does."""

    def __init__(self, store: Store, tree: Tree | None = None) -> None:
        self._store = store
        self._tree = tree or Tree()

    async def claim(self, facts: LeaderFacts) -> bool:
        """Try to lead in the present session; whether this controller does now."""
        path, data = self._tree.leader, msgspec.msgpack.encode(facts)
        await self._store.ensure(self._tree.root)
        try:
            await self._store.create(path, data, ephemeral=True)
        except NodeExistsError:
            found = await self._store.find(path)
            return found is not None and found.owner == self._store.session != 0
        return True

    async def resign(self) -> None:
        """Lead no longer, at once; nothing happens if another does."""
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
        """Who leads, at once and at every change; goes on when the store has been away."""
        async with self._store.watch(self._tree.leader) as watch:
            while True:
                try:
                    yield await self.load()
                except StoreUnavailableError:
                    pass
                await watch.changed()

    def _decode(self, node: Node | None) -> LeaderFacts | None:
        if node is None:
            return None
        try:
            return _facts.decode(node.data)
        except (msgspec.DecodeError, UnicodeDecodeError) as problem:
            raise DamagedError(node.path, str(problem)) from problem
