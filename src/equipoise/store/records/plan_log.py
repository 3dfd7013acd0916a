"""The plan in the store: a log of changes, snapshots, and a hint of its end.

Creating `log/VERSION` is the commit: two controllers cannot both create a version. A change that is too large for a
node goes into a blob first. A snapshot is a whole plan in a blob; its node is created last, so an unfinished snapshot
does not exist. The head is set after the commit and may lag.

This file reads and writes these nodes; `plans` decides in which order, and handles damaged ones.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from itertools import takewhile

import msgspec

from equipoise.errors import (
    BadVersionError,
    DamagedError,
    NodeExistsError,
    NoNodeError,
    PlanError,
    PlanRaceError,
)
from equipoise.model import Plan, PlanChange, decode_change, decode_plan, encode_change, encode_plan
from equipoise.store.contract import Answer, Node, Read, Store, WatchKind
from equipoise.store.executor import HEAVY_BYTES, HEAVY_ENTRIES, offload
from equipoise.store.records.blobs import BlobRef, delete_blob, read_blob, write_blob
from equipoise.store.tree import Tree, number_of, version_name

__all__ = ["Committed", "PlanLog", "head_in"]

# A packed change up to this size is stored in the log's own node; longer ones would slow down every reader of the log.
INLINE_BYTES_MAX = 200_000
# Limit of an unpacked inline change for readers: names compress eightfold, sometimes better.
_INLINE_UNPACKED_BYTES_MAX = 64 * 1024 * 1024
# Changes read in one round trip: a hub that starts far from the store reads up to a hundred. At their largest they take
# 3 MB.
_CHANGES_AT_ONCE = 16


class Committed(msgspec.Struct, frozen=True):
    """A committed change."""

    change: PlanChange
    # By the committer's clock, in seconds since 1970.
    at_s: float
    writer: str
    # Its size in the store.
    stored_bytes: int


class _Record(msgspec.Struct, frozen=True, array_like=True):
    """A node of the log. Exactly one of `packed` and `blob` holds the change."""

    # Unique for each attempt to commit: a writer that finds its own bytes in the log after a disconnection has won.
    token: str
    writer: str
    at_s: float
    packed: bytes | None
    blob: BlobRef | None


class _Snapshot(msgspec.Struct, frozen=True, array_like=True):
    version: int
    blob: BlobRef


_records = msgspec.msgpack.Decoder(_Record)
_snapshots = msgspec.msgpack.Decoder(_Snapshot)


class PlanLog:
    """The nodes of one region's plan."""

    def __init__(self, store: Store, tree: Tree) -> None:
        self._store = store
        self._tree = tree
        self._tokens = 0
        # The version read last, and its creation id: a follower of the plan needs it next.
        self._read = (0, 0)

    async def prepare(self) -> None:
        # Earlier reads may be of a store that was emptied since.
        self._read = (0, 0)
        for path in (self._tree.log, self._tree.snapshots, self._tree.plan_blobs):
            await self._store.ensure(path)

    # Changes.

    async def append(self, change: PlanChange, *, writer: str, at_s: float) -> int:
        """Commit; return the size in bytes. Raises PlanRaceError if the version exists already."""
        token, is_heavy = self._token(), len(change.entries) > HEAVY_ENTRIES
        data = await offload(is_heavy, encode_change, change)
        packed: bytes | None = await offload(is_heavy, zlib.compress, data, 1)
        assert packed is not None
        taken, blob = len(packed), None
        if taken > INLINE_BYTES_MAX:
            name = f"{version_name(change.version)}-change-{token}"
            packed, blob = None, await write_blob(self._store, self._tree.plan_blobs, name, data)
        record = _Record(token, writer, at_s, packed, blob)
        try:
            await self._store.create(self._tree.change(change.version), msgspec.msgpack.encode(record))
        except NodeExistsError as problem:
            if blob is not None:
                await delete_blob(self._store, self._tree.plan_blobs, blob.name)
            raise PlanRaceError(change.version) from problem
        return taken

    async def read(self, version: int) -> Committed | None:
        """The change that made this version; None if it does not exist. Raises DamagedError."""
        node = await self._store.find(self._tree.change(version))
        return None if node is None else await self.decode(version, node)

    async def nodes(self, versions: range) -> list[Node]:
        """These changes, undecoded: as many as fit into one round trip, up to the first that does not exist."""
        versions = versions[:_CHANGES_AT_ONCE]
        nodes = await self._store.read([Read(self._tree.change(at)) for at in versions])
        return [node for node in takewhile(bool, nodes) if isinstance(node, Node)]

    async def decode(self, version: int, node: Node) -> Committed:
        """The change in a node of the log. Raises DamagedError."""
        path = node.path
        try:
            record = _records.decode(node.data)
            data = await self._unpacked(path, record)
            change = await offload(len(data) > HEAVY_BYTES, decode_change, data)
        except (msgspec.DecodeError, UnicodeDecodeError, zlib.error, PlanError) as problem:
            raise DamagedError(path, str(problem)) from problem
        if change.version != version:
            raise DamagedError(path, f"it holds version {change.version}")
        self._read = (version, node.created_id)
        return Committed(change, record.at_s, record.writer, len(node.data))

    async def created_id(self, version: int) -> int | None:
        """The creation id of the commit, unique in the store; None if it does not exist.

        It never changes: that of the version read last is cached, since the store may be far away.
        """
        if self._read[0] == version:
            return self._read[1]
        change, snapshot = await self._store.read(
            [Read(self._tree.change(version)), Read(self._tree.snapshot(version))]
        )
        # A plan that was restored as a whole has no change.
        node = change or snapshot
        return node.created_id if isinstance(node, Node) else None

    async def _unpacked(self, path: str, record: _Record) -> bytes:
        if record.blob is not None:
            return await read_blob(self._store, self._tree.plan_blobs, record.blob)
        unpack, packed = zlib.decompressobj(), record.packed or b""
        data = await offload(len(packed) > HEAVY_BYTES, unpack.decompress, packed, _INLINE_UNPACKED_BYTES_MAX)
        if not unpack.eof:
            raise DamagedError(path, "the change is truncated or too long")
        return data

    async def last_known(self) -> int:
        """The latest version by the log and the head; 0 if there is none."""
        names, head = await self._store.read(
            [Read(self._tree.log, WatchKind.CHILDREN), Read(self._tree.head)]
        )
        listed = _numbers_in(names) if isinstance(names, tuple) else []
        return max(listed[-1] if listed else 0, head_in(head))

    async def versions(self) -> list[int]:
        """Versions whose change still exists, ascending."""
        return await self._numbers(self._tree.log)

    # Snapshots.

    async def snapshot_versions(self) -> list[int]:
        return await self._numbers(self._tree.snapshots)

    async def write_snapshot(self, plan: Plan) -> None:
        name = f"{version_name(plan.version)}-snapshot-{self._token()}"
        data = await offload(len(plan.entries) > HEAVY_ENTRIES, encode_plan, plan)
        blob = await write_blob(self._store, self._tree.plan_blobs, name, data)
        try:
            node = msgspec.msgpack.encode(_Snapshot(plan.version, blob))
            await self._store.create(self._tree.snapshot(plan.version), node)
        except NodeExistsError:
            await delete_blob(self._store, self._tree.plan_blobs, name)

    async def read_snapshot(self, version: int) -> Plan | None:
        """None if it does not exist. Raises DamagedError."""
        path = self._tree.snapshot(version)
        node = await self._store.find(path)
        if node is None:
            return None
        try:
            stored = _snapshots.decode(node.data)
            data = await read_blob(self._store, self._tree.plan_blobs, stored.blob)
            plan = await offload(len(data) > HEAVY_BYTES, decode_plan, data)
        except (msgspec.DecodeError, UnicodeDecodeError, PlanError) as problem:
            raise DamagedError(path, str(problem)) from problem
        if plan.version != version:
            raise DamagedError(path, f"it holds version {plan.version}")
        return plan

    # The head.

    async def raise_head(self, version: int) -> None:
        """Never lowered; another writer may raise it at the same time."""
        node = await self._store.find(self._tree.head)
        data = version_name(version).encode()
        try:
            if node is None:
                await self._store.create(self._tree.head, data)
            elif head_in(node) < version:
                await self._store.set(self._tree.head, data, version=node.version)
        except (BadVersionError, NodeExistsError):
            pass

    # Trimming.

    async def trim(self, *, log_floor: int, snapshot_floor: int) -> None:
        """Delete changes up to `log_floor`, snapshots below `snapshot_floor`, and the blobs of both.

        Versions below the floors are committed, so a writer that still writes a blob for one has lost its race.
        """
        for version in await self.versions():
            if version <= log_floor:
                await self._delete(self._tree.change(version))
        for version in await self.snapshot_versions():
            if version < snapshot_floor:
                await self._delete(self._tree.snapshot(version))
        for name in await self._store.children(self._tree.plan_blobs):
            number, floor = number_of(name), snapshot_floor if "-snapshot-" in name else log_floor + 1
            if number is not None and number < floor:
                await delete_blob(self._store, self._tree.plan_blobs, name)

    async def _delete(self, path: str) -> None:
        try:
            await self._store.delete(path)
        except NoNodeError:
            pass

    async def _numbers(self, folder: str) -> list[int]:
        try:
            names = await self._store.children(folder)
        except NoNodeError:
            return []
        return _numbers_in(names)

    def _token(self) -> str:
        self._tokens += 1
        return f"{self._store.session & (2**64 - 1):x}.{self._tokens}"


def _numbers_in(names: Iterable[str]) -> list[int]:
    """The versions in the names of nodes, ascending."""
    return sorted(number for name in names if (number := number_of(name)) is not None)


def head_in(node: Answer) -> int:
    """The latest version, or an earlier one; 0 if there is no hint."""
    return (number_of(node.data.decode("ascii", "replace")) or 0) if isinstance(node, Node) else 0
