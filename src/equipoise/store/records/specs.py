"""The topic specs of a region, in the store: one node per pattern."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

from equipoise.errors import (
    BadVersionError,
    NodeExistsError,
    NoNodeError,
    SettingsError,
    StoreUnavailableError,
)
from equipoise.model import Specs, TopicSpec, decode_spec, encode_spec
from equipoise.store.contract import Node, Store
from equipoise.store.records.follow import follow
from equipoise.store.tree import Tree, unescape

__all__ = ["SpecsStore"]

log = logging.getLogger("equipoise.store.records.specs")

# People change specs; whoever loses this often is up against something else.
_RACES_MAX = 20


class SpecsStore:
    """Read and change the specs of one region."""

    def __init__(self, store: Store, tree: Tree | None = None) -> None:
        self._store = store
        self._tree = tree or Tree()

    async def load(self) -> Specs:
        """All specs. One that cannot be read is passed over, and said so: the others still hold."""
        try:
            names = await self._store.children(self._tree.specs)
        except NoNodeError:
            return Specs()
        found = await asyncio.gather(*(self.get(unescape(name)) for name in names))
        return Specs(spec for spec in found if spec is not None)

    async def get(self, pattern: bytes) -> TopicSpec | None:
        """The spec of exactly this pattern."""
        return self._read(pattern, await self._store.find(self._tree.spec(pattern)))

    async def put(self, spec: TopicSpec) -> None:
        """Set the spec of its pattern, whatever it was."""
        path, data = self._tree.spec(spec.pattern), encode_spec(spec)
        await self._store.ensure(self._tree.specs)
        try:
            await self._store.create(path, data)
        except NodeExistsError:
            await self._store.set(path, data, version=None)

    async def put_back(self, spec: TopicSpec) -> None:
        """Store a spec that the store has lost, unless its pattern has one."""
        await self._store.ensure(self._tree.specs)
        try:
            await self._store.create(self._tree.spec(spec.pattern), encode_spec(spec))
        except NodeExistsError:
            pass

    async def change(
        self, pattern: bytes, make: Callable[[TopicSpec | None], TopicSpec | None]
    ) -> TopicSpec | None:
        """Put what `make` makes of the spec there is, and give it back; None removes it.

        Made again if somebody else changes the spec meanwhile, so nobody's change is lost.
        """
        path = self._tree.spec(pattern)
        await self._store.ensure(self._tree.specs)
        for attempt in range(_RACES_MAX):
            node = await self._store.find(path)
            made = make(self._read(pattern, node))
            try:
                if made is not None and node is None:
                    await self._store.create(path, encode_spec(made))
                elif made is not None and node is not None:
                    await self._store.set(path, encode_spec(made), version=node.version)
                elif node is not None:
                    await self._store.delete(path, version=node.version)
                return made
            except (BadVersionError, NodeExistsError, NoNodeError):
                if attempt == _RACES_MAX - 1:
                    raise
        raise AssertionError("the last attempt returns or raises")

    async def remove(self, pattern: bytes) -> bool:
        """False if there was none."""
        try:
            await self._store.delete(self._tree.spec(pattern))
        except NoNodeError:
            return False
        return True

    async def watch(self) -> AsyncGenerator[Specs, None]:
        """All specs, and again whenever one may have changed. Goes on when the store has been away."""
        async with aclosing(follow(self._store, self._tree.specs)) as changes:
            async for _ in changes:
                try:
                    yield await self.load()
                except StoreUnavailableError:
                    continue

    def _read(self, pattern: bytes, node: Node | None) -> TopicSpec | None:
        if node is None:
            return None
        try:
            return decode_spec(node.data)
        except SettingsError as problem:
            log.warning("the spec of %r is passed over: %s", pattern, problem)
            return None
