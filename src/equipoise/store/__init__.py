"""Metadata and coordination: one contract, in memory, over a network, and in ZooKeeper."""

from equipoise.store.contract import Node, SessionState, Store, StoreSettings, Watch, WatchKind
from equipoise.store.memory import MemoryStore
from equipoise.store.memory_tree import MemoryTree

__all__ = [
    "MemoryStore",
    "MemoryTree",
    "Node",
    "SessionState",
    "Store",
    "StoreSettings",
    "Watch",
    "WatchKind",
]
