"""Metadata and coordination: one contract, in memory, over a network, and in ZooKeeper."""

from equipoise.store.contract import Node, SessionState, Store, StoreSettings, Watch, WatchKind
from equipoise.store.memory import MemoryStore
from equipoise.store.memory_tree import MemoryTree
from equipoise.store.opening import open_store
from equipoise.store.remote import RemoteMemoryStore
from equipoise.store.server import MemoryStoreServer

__all__ = [
    "MemoryStore",
    "MemoryStoreServer",
    "MemoryTree",
    "Node",
    "RemoteMemoryStore",
    "SessionState",
    "Store",
    "StoreSettings",
    "Watch",
    "WatchKind",
    "open_store",
]
