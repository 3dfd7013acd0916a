"""The topic specs of a region, in the store: one node per pattern.

The specs version counts the changes: 0 before the first, then 1, 2, 3. It is the content of the folder's own node,
which is raised after each change and read before the specs. So specs read with a version have every change up to it,
and perhaps later ones. A plan carries the specs version of its time, so a hub that gets a plan knows whether its specs
are too old.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import NamedTuple

from equipoise.errors import (
    BadVersionError,
    NodeExistsError,
    NoNodeError,
    SettingsError,
)
from equipoise.model import Specs, TopicSpec, decode_spec, encode_spec
from equipoise.store.contract import Node, Read, Store, WatchKind
from equipoise.store.records.follow import follow, read_reported
from equipoise.store.tree import Tree, unescape

__all__ = ["SpecsStore", "StoredSpecs"]

log = logging.getLogger("equipoise.store.records.specs")

# Operators change specs; a writer that loses this race often has another problem.
_RACES_MAX = 20


class StoredSpecs(NamedTuple):
    specs: Specs
    version: int


class SpecsStore:
    """Read and change the specs of one region."""

    def __init__(self, store: Store, tree: Tree | None = None) -> None:
        self._store = store
        self._tree = tree or Tree()

    async def load(self) -> Specs:
        """All specs. One that cannot be read is skipped, and logged: the others apply."""
        return (await self.load_with_version()).specs

    async def load_with_version(self) -> StoredSpecs:
        """All specs, and a version up to which they have every change."""
        folder = self._tree.specs
        node, names = await self._store.read([Read(folder), Read(folder, WatchKind.CHILDREN)])
        if not isinstance(node, Node) or not isinstance(names, tuple):
            return StoredSpecs(Specs(), 0)
        found = await asyncio.gather(*(self.get(unescape(name)) for name in names))
        return StoredSpecs(Specs(spec for spec in found if spec is not None), _version(node))

    async def version(self) -> int:
        node = await self._store.find(self._tree.specs)
        return 0 if node is None else _version(node)

    async def get(self, pattern: bytes) -> TopicSpec | None:
        """The spec of exactly this pattern."""
        return self._read(pattern, await self._store.find(self._tree.spec(pattern)))

    async def put(self, spec: TopicSpec) -> None:
        """Set the spec of its pattern, whatever it was."""
        await self.change(spec.pattern, lambda _: spec)

    async def put_back(self, known: StoredSpecs) -> None:
        """Store specs with their own version, in a store that has returned with older ones."""
        present = await self.load_with_version()
        # A change may be known before it is counted.
        if present.version >= known.version and (present.version or len(present.specs)):
            return
        patterns = {spec.pattern for spec in known.specs}
        for spec in known.specs:
            await self._put(spec)
        for spec in present.specs:
            if spec.pattern not in patterns:
                await self._delete(spec.pattern)
        await self._raise_version(known.version)

    async def change(
        self, pattern: bytes, make: Callable[[TopicSpec | None], TopicSpec | None]
    ) -> TopicSpec | None:
        """Replace the spec by the result of `make` on it, and return that; None removes it.

        `make` is called again if another writer changes the spec meanwhile, so no change is lost. An equal spec makes
        no new version.
        """
        path = self._tree.spec(pattern)
        await self._store.ensure(self._tree.specs)
        for attempt in range(_RACES_MAX):
            node = await self._store.find(path)
            old = self._read(pattern, node)
            made = make(old)
            if made == old and (node is None) == (old is None):
                return made
            try:
                if made is not None and node is None:
                    await self._store.create(path, encode_spec(made))
                elif made is not None and node is not None:
                    await self._store.set(path, encode_spec(made), version=node.version)
                elif node is not None:
                    await self._store.delete(path, version=node.version)
                await self._raise_version()
                return made
            except (BadVersionError, NodeExistsError, NoNodeError):
                if attempt == _RACES_MAX - 1:
                    raise
        raise AssertionError("the last attempt returns or raises")

    async def remove(self, pattern: bytes) -> bool:
        """False if there was none."""
        is_removed = await self._delete(pattern)
        if is_removed:
            await self._raise_version()
        return is_removed

    async def watch(self) -> AsyncGenerator[Specs, None]:
        """All specs, and again whenever one may have changed. Continues after a loss of the store."""
        async with aclosing(self.watch_with_version()) as changes:
            async for stored in changes:
                yield stored.specs

    async def watch_with_version(self) -> AsyncGenerator[StoredSpecs, None]:
        """As `watch`. The plan that needs a version may arrive earlier: see `load_with_version`."""
        async with aclosing(follow(self._store, self._tree.specs)) as changes:
            async for _ in changes:
                yield await read_reported(self.load_with_version)

    async def _put(self, spec: TopicSpec) -> None:
        path, data = self._tree.spec(spec.pattern), encode_spec(spec)
        await self._store.ensure(self._tree.specs)
        try:
            await self._store.create(path, data)
        except NodeExistsError:
            await self._store.set(path, data, version=None)

    async def _delete(self, pattern: bytes) -> bool:
        try:
            await self._store.delete(self._tree.spec(pattern))
        except NoNodeError:
            return False
        return True

    async def _raise_version(self, at_least: int = 0) -> None:
        """Raise the version by one, or at least to the known one."""
        path = self._tree.specs
        await self._store.ensure(path)
        while True:
            node = await self._store.get(path)
            version = max(at_least, _version(node) + (not at_least))
            try:
                await self._store.set(path, b"%d" % version, version=node.version)
            except BadVersionError:
                continue
            return

    def _read(self, pattern: bytes, node: Node | None) -> TopicSpec | None:
        if node is None:
            return None
        try:
            return decode_spec(node.data)
        except SettingsError as problem:
            log.warning("the spec of %r is skipped: %s", pattern, problem)
            return None


def _version(folder: Node) -> int:
    """Of specs stored by releases that did not count changes: 0."""
    return int(folder.data) if folder.data.isdigit() else 0
