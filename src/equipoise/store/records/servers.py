"""Hubs requested by the controller beyond those run by operators; provisioners read them.

If a controller started hubs itself, they would end with it. So it only stores its request; `equipoise up`, or an agent
of the operator, starts and stops the hubs.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Mapping

import msgspec

from equipoise.errors import BadVersionError, DamagedError, NodeExistsError
from equipoise.store.contract import Store
from equipoise.store.records.follow import read_reported
from equipoise.store.tree import Tree

__all__ = ["ServersStore", "WantedServer"]

# Two controllers at the same time are rare and brief.
_RACES_MAX = 5


class WantedServer(msgspec.Struct, frozen=True, kw_only=True):
    """One hub that should run."""

    hub: str
    site: str = ""


_decoder = msgspec.msgpack.Decoder(list[WantedServer])


class ServersStore:
    """The list, and its changes."""

    def __init__(self, store: Store, tree: Tree | None = None) -> None:
        self._store = store
        self._tree = tree or Tree()

    async def load(self) -> dict[str, WantedServer]:
        """By hub. Raises DamagedError."""
        return (await self._read())[0]

    async def change(
        self, *, add: Iterable[WantedServer] = (), remove: Iterable[str] = ()
    ) -> Mapping[str, WantedServer]:
        """Add and remove; return the new list. Raises BadVersionError if other writers keep changing it."""
        added, removed = list(add), set(remove)
        for attempt in range(_RACES_MAX):
            wanted, version = await self._read()
            made = {hub: one for hub, one in wanted.items() if hub not in removed}
            made.update({one.hub: one for one in added})
            data = msgspec.msgpack.encode([made[hub] for hub in sorted(made)])
            try:
                if version is None:
                    await self._store.ensure(self._tree.root)
                    await self._store.create(self._tree.servers, data)
                else:
                    await self._store.set(self._tree.servers, data, version=version)
                return made
            except (BadVersionError, NodeExistsError):
                if attempt == _RACES_MAX - 1:
                    raise
        raise AssertionError("the last attempt returns or raises")

    async def watch(self) -> AsyncGenerator[Mapping[str, WantedServer], None]:
        """The list, at once and at every change; continues after a loss of the store."""
        async with self._store.watch(self._tree.servers) as watch:
            while True:
                yield await read_reported(self.load)
                await watch.changed()

    async def _read(self) -> tuple[dict[str, WantedServer], int | None]:
        node = await self._store.find(self._tree.servers)
        if node is None:
            return {}, None
        try:
            return {one.hub: one for one in _decoder.decode(node.data)}, node.version
        except (msgspec.DecodeError, UnicodeDecodeError) as problem:
            raise DamagedError(node.path, str(problem)) from problem
