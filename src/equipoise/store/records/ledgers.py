"""Ledgers in the store: nodes in BookKeeper's layout, and the id counter.

Deleting a ledger's node deletes the ledger: every bookie drops it at its next garbage collection.
"""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import AsyncIterator
from contextlib import suppress

from equipoise.errors import (
    BadVersionError,
    DamagedError,
    LedgerError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
)
from equipoise.ledger.effects import FailureReason
from equipoise.ledger.metadata import (
    LAYOUT,
    LedgerMetadata,
    decode_metadata,
    encode_metadata,
    ledger_path,
)
from equipoise.store.contract import Store
from equipoise.store.tree import Tree

__all__ = ["FIRST_LEDGER", "LedgersStore"]

# Greater than all ids that Java clients would assign in the same tree.
FIRST_LEDGER = 1 << 48
# Ids that one change of the counter reserves. A hub that opens a thousand logs at once would otherwise compete with
# itself for each of them. Unused ids of a process are never assigned.
_IDS_AT_ONCE = 64
_DIGITS = re.compile(r"[0-9]{2,4}")
_LEAF = re.compile(r"L[0-9]{4}")
_EMPTY_DEPTH = 2


class LedgersStore:
    """Metadata of all ledgers of a region."""

    def __init__(self, store: Store, tree: Tree | None = None) -> None:
        self._store = store
        self._tree = tree or Tree()
        self._reserved: deque[int] = deque()
        self._reserving = asyncio.Lock()

    async def prepare(self, instance: str) -> str:
        """Create the nodes of a cluster of bookies unless they exist. Returns the cluster's identity.

        `instance` is a new UUID, used if this call creates them. Raises DamagedError for another layout.
        """
        root = self._tree.ledgers
        await self._store.ensure(f"{root}/available/readonly")
        for name, data in (("LAYOUT", LAYOUT), ("INSTANCEID", instance.encode())):
            with suppress(NodeExistsError):
                await self._store.create(f"{root}/{name}", data)
        layout = await self._store.get(f"{root}/LAYOUT")
        if layout.data != LAYOUT:
            raise DamagedError(f"{root}/LAYOUT", "its layout is unknown to this version")
        found = await self.instance()
        if found is None:
            raise DamagedError(f"{root}/INSTANCEID", "it is gone")
        return found

    async def instance(self) -> str | None:
        """The cluster's identity; None if there is no cluster of bookies."""
        node = await self._store.find(f"{self._tree.ledgers}/INSTANCEID")
        return None if node is None else node.data.decode(errors="replace")

    async def new_id(self) -> int:
        """An id that no ledger has had, including deleted ones."""
        async with self._reserving:
            if not self._reserved:
                last = await self._count(_IDS_AT_ONCE)
                self._reserved.extend(range(last + 1 - _IDS_AT_ONCE, last + 1))
            return self._reserved.popleft()

    async def _count(self, ids: int) -> int:
        """Add this number to the counter, which is the last reserved id; return its new value."""
        path = self._tree.ledger_ids
        while True:
            node = await self._store.find(path)
            try:
                if node is None:
                    await self._store.ensure(self._tree.root)
                    last = FIRST_LEDGER + ids - 1
                    await self._store.create(path, str(last).encode())
                    return last
                last = self._counted(path, node.data) + ids
                await self._store.set(path, str(last).encode(), version=node.version)
                return last
            except (NodeExistsError, BadVersionError):
                continue

    def _counted(self, path: str, data: bytes) -> int:
        if not data.isdigit() or int(data) < FIRST_LEDGER:
            raise DamagedError(path, "it is not a counter of ledgers")
        return int(data)

    async def create(self, metadata: LedgerMetadata) -> int:
        """Create the ledger's node; return its version. The token identifies the creator if a reply was lost."""
        path = self._path(metadata.ledger)
        try:
            while True:
                with suppress(NoNodeError):
                    return (await self._store.create(path, encode_metadata(metadata))).version
                # The first in its folder, which may be deleted again: another process deletes its last ledger.
                await self._store.ensure(path.rpartition("/")[0])
        except NodeExistsError:
            found, version = await self.load(metadata.ledger)
            if found != metadata:
                raise
            return version

    async def load(self, ledger: int) -> tuple[LedgerMetadata, int]:
        """The metadata and its version. Raises LedgerError if it is deleted, DamagedError."""
        node = await self._store.find(self._path(ledger))
        if node is None:
            raise LedgerError(ledger, FailureReason.DELETED)
        return decode_metadata(node.data, ledger), node.version

    async def set(self, metadata: LedgerMetadata, version: int) -> int:
        """Compare and set; the new version. Raises BadVersionError, or LedgerError if it is deleted."""
        try:
            node = await self._store.set(
                self._path(metadata.ledger), encode_metadata(metadata), version=version
            )
        except NoNodeError as error:
            raise LedgerError(metadata.ledger, FailureReason.DELETED) from error
        return node.version

    async def exists(self, ledger: int) -> bool:
        return await self._store.find(self._path(ledger)) is not None

    async def delete(self, ledger: int) -> None:
        """Delete the node, and then empty folders of the layout."""
        path = self._path(ledger)
        with suppress(NoNodeError):
            await self._store.delete(path)
        with suppress(NoNodeError, NotEmptyError):
            for _ in range(_EMPTY_DEPTH):
                path = path.rpartition("/")[0]
                await self._store.delete(path)

    async def ids(self) -> AsyncIterator[int]:
        """The ids of all ledgers, in order."""
        async for path in self._leaves(self._tree.ledgers):
            digits = path.removeprefix(self._tree.ledgers).replace("/", "").replace("L", "")
            yield int(digits)

    async def _leaves(self, path: str) -> AsyncIterator[str]:
        try:
            names = await self._store.children(path)
        except NoNodeError:
            return
        for name in names:
            if _LEAF.fullmatch(name):
                yield f"{path}/{name}"
            elif _DIGITS.fullmatch(name):
                async for leaf in self._leaves(f"{path}/{name}"):
                    yield leaf

    def _path(self, ledger: int) -> str:
        return f"{self._tree.ledgers}/{ledger_path(ledger)}"
