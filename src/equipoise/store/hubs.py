"""The hubs of a region: who they are, and which of them are alive.

A hub has two nodes, Hedwig's: one with its facts, which stays, and below it `alive`, ephemeral, with its load. Both
carry the incarnation, so that facts of an earlier life are not taken for those of the present one.

Always true: of two processes under one name at most one holds `alive`; the second waits for the session of the first
to end.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing

import msgspec

from equipoise.errors import (
    DamagedError,
    NodeExistsError,
    NoNodeError,
    StoreUnavailableError,
)
from equipoise.store.contract import Node, Store, WatchKind
from equipoise.store.following import follow
from equipoise.store.tree import Tree, unescape

__all__ = ["HubAlive", "HubFacts", "HubSeen", "HubsStore"]


class HubFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What a hub says of itself when it starts. A newer program's fields are passed over."""

    hub: str
    # Where clients and other hubs connect to: host:port.
    address: str
    # Which life of this name it is: greater for each later one.
    incarnation: int
    site: str = ""
    rack: str = ""


class HubAlive(msgspec.Struct, frozen=True, kw_only=True):
    incarnation: int
    # As the hub sees it, 1.0 for full; for weighted choices where no plan decides.
    load_ratio: float = 0.0


class HubSeen(msgspec.Struct, frozen=True):
    facts: HubFacts
    # None if the hub is dead, or has not come up in the incarnation of its facts.
    alive: HubAlive | None


_facts = msgspec.msgpack.Decoder(HubFacts)
_alive = msgspec.msgpack.Decoder(HubAlive)


class HubsStore:
    """Announce a hub, and see the others."""

    def __init__(self, store: Store, tree: Tree | None = None) -> None:
        self._store = store
        self._tree = tree or Tree()

    async def announce(self, facts: HubFacts, *, load_ratio: float = 0.0, patience_s: float = 30.0) -> Node:
        """Come alive in the present session; call again after every LOST. Returns the `alive` node.

        Waits for an earlier life of this name to end. Raises NodeExistsError if it does not within `patience_s`.
        """
        await self._store.ensure(self._tree.hub(facts.hub))
        data = msgspec.msgpack.encode(HubAlive(incarnation=facts.incarnation, load_ratio=load_ratio))
        node = await self._claim(self._tree.alive(facts.hub), data, patience_s)
        # After the claim: whoever is still alive under this name keeps its facts until then.
        await self._store.set(self._tree.hub(facts.hub), msgspec.msgpack.encode(facts), version=None)
        return node

    async def report(self, facts: HubFacts, *, load_ratio: float) -> None:
        """Tell the current load. Raises NoNodeError if the hub is not alive."""
        data = msgspec.msgpack.encode(HubAlive(incarnation=facts.incarnation, load_ratio=load_ratio))
        await self._store.set(self._tree.alive(facts.hub), data, version=None)

    async def withdraw(self, hub: str) -> None:
        """Be dead, at once and on purpose."""
        try:
            await self._store.delete(self._tree.alive(hub))
        except NoNodeError:
            pass

    async def forget(self, hub: str) -> None:
        """Remove a dead hub's facts. Raises NotEmptyError if it is alive."""
        try:
            await self._store.delete(self._tree.hub(hub))
        except NoNodeError:
            pass

    async def load(self) -> dict[str, HubSeen]:
        """All hubs there are, by name. Raises DamagedError."""
        try:
            names = await self._store.children(self._tree.hubs)
        except NoNodeError:
            return {}
        found = await asyncio.gather(*(self._look(unescape(name).decode()) for name in names))
        return {seen.facts.hub: seen for seen in found if seen is not None}

    async def watch(self) -> AsyncGenerator[Mapping[str, HubSeen], None]:
        """All hubs, and again whenever one comes, dies or changes its facts; not when only its load does.

        Goes on when the store has been away: nobody is dead because nobody can be asked.
        """
        async with aclosing(
            follow(self._store, self._tree.hubs, WatchKind.CHILDREN, WatchKind.DATA)
        ) as changes:
            async for _ in changes:
                try:
                    yield await self.load()
                except StoreUnavailableError:
                    continue

    async def _claim(self, path: str, data: bytes, patience_s: float) -> Node:
        async with self._store.watch(path) as watch:
            deadline = asyncio.get_running_loop().time() + patience_s
            while True:
                try:
                    return await self._store.create(path, data, ephemeral=True)
                except NodeExistsError:
                    found = await self._store.find(path)
                    if found is not None and found.owner == self._store.session:
                        return await self._store.set(path, data, version=None)
                    left_s = deadline - asyncio.get_running_loop().time()
                    if found is not None and (left_s <= 0 or not await watch.changed(left_s)):
                        raise

    async def _look(self, hub: str) -> HubSeen | None:
        node = await self._store.find(self._tree.hub(hub))
        alive = await self._store.find(self._tree.alive(hub))
        if node is None or not node.data:
            # Made, but not yet announced for the first time.
            return None
        try:
            facts = _facts.decode(node.data)
            life = None if alive is None else _alive.decode(alive.data)
        except (msgspec.DecodeError, UnicodeDecodeError) as problem:
            raise DamagedError(node.path, str(problem)) from problem
        is_current = life is not None and life.incarnation == facts.incarnation
        return HubSeen(facts, life if is_current else None)
