"""Logs of topics in the store: owner, epoch and ledgers of each.

Hedwig's test-and-set: a hub owns a topic if it has set the topic's node, by compare-and-set, to its own name and
incarnation and a higher epoch. It is the owner while that incarnation is alive; there is no ephemeral node per topic.
Every change of the list of ledgers is a compare-and-set on the same node, so a former owner can make none.
"""

from __future__ import annotations

import msgspec

from equipoise.errors import BadVersionError, DamagedError, NodeExistsError, NoNodeError
from equipoise.store.contract import Node, Store
from equipoise.store.tree import Tree, unescape

__all__ = ["LogLedger", "LogNode", "StoredLog", "TopicLogsStore", "pack_node", "unpack_node"]


class LogLedger(msgspec.Struct, frozen=True, array_like=True):
    """A ledger of a log. `last` is the last entry, once a later owner or the writer itself has closed it; else -1."""

    ledger: int
    epoch: int
    last: int = -1
    # The last id of its entries, once it is closed: if that is below the first kept id, the ledger can be deleted.
    last_ms: int = 0
    last_seq: int = 0


class LogNode(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The content of a topic's node. Unknown fields of a newer program are ignored."""

    owner: str = ""
    incarnation: int = 0
    epoch: int = 0
    ledgers: tuple[LogLedger, ...] = ()
    # The last entry that subscribers of a durable topic were sent when the last owner claimed the log, or when it
    # released it; -1: unknown.
    sent: int = -1


class StoredLog(msgspec.Struct, frozen=True):
    """A node as read. `version` None: it does not exist."""

    node: LogNode
    version: int | None


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(LogNode)


def pack_node(node: LogNode) -> bytes:
    return _encoder.encode(node)


def unpack_node(data: bytes) -> LogNode | None:
    """None for an invalid name."""
    try:
        return _decoder.decode(data)
    except msgspec.MsgspecError:
        return None


class TopicLogsStore:
    def __init__(self, store: Store, tree: Tree) -> None:
        self._store = store
        self._tree = tree

    async def names(self, folder: int) -> list[bytes]:
        """The topics of one of the TOPIC_FOLDERS that have a node; their logs may be empty, or deleted."""
        try:
            return [unescape(name) for name in await self._store.children(self._tree.topic_folder(folder))]
        except NoNodeError:
            return []

    async def load(self, topic: bytes) -> StoredLog:
        """Raises DamagedError if the node cannot be read: nothing is deleted then, and the topic is refused."""
        path = self._tree.topic(topic)
        found = await self._store.find(path)
        if found is None:
            return StoredLog(LogNode(), None)
        try:
            return StoredLog(_decoder.decode(found.data), found.version)
        except msgspec.MsgspecError as problem:
            raise DamagedError(path, str(problem)) from problem

    async def exists(self, topic: bytes) -> bool:
        """Whether the topic has a node now, even if the server of the last reads lags. Raises DamagedError."""
        if (await self.load(topic)).version is not None:
            return True
        await self._store.sync()
        return (await self.load(topic)).version is not None

    async def changed(self, topic: bytes, version: int | None, timeout_s: float) -> bool:
        """Wait until the node has, or may have, another version than this; False if the time is up first."""
        async with self._store.watch(self._tree.topic(topic)) as watch:
            if (await self.load(topic)).version != version:
                return True
            return await watch.changed(timeout_s)

    async def save(self, topic: bytes, node: LogNode, version: int | None) -> StoredLog | None:
        """Set the node if it still has this version; None if another hub was first."""
        path, data = self._tree.topic(topic), _encoder.encode(node)
        try:
            if version is None:
                saved = await self._create(path, data)
            else:
                saved = await self._store.set(path, data, version=version)
        except (BadVersionError, NodeExistsError, NoNodeError):
            return None
        return StoredLog(node, saved.version)

    async def _create(self, path: str, data: bytes) -> Node:
        try:
            return await self._store.create(path, data)
        except NoNodeError:
            # The first topic in its folder.
            await self._store.ensure(path.rpartition("/")[0])
            return await self._store.create(path, data)
