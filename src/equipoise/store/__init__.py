"""Metadata and coordination: one contract, in memory, over a network, and in ZooKeeper.

Start with `contract`. `tree` defines the nodes of a region; `plans`, `hubs`, `users` and `specs` read and write them.
ZooKeeper itself, `zookeeper` and `embedded`, is imported only by programs that use it.
"""

from equipoise.store.backends.memory import MemoryStore
from equipoise.store.backends.memory_server import MemoryStoreServer
from equipoise.store.backends.memory_tree import MemoryTree
from equipoise.store.backends.remote import RemoteMemoryStore
from equipoise.store.contract import Answer, Node, Read, SessionState, Store, StoreSettings, Watch, WatchKind
from equipoise.store.records.hubs import HubAlive, HubFacts, HubSeen, HubsStore
from equipoise.store.records.leader import LeaderFacts, LeaderStore
from equipoise.store.records.plans import Committed, PlanSettings, PlanStore
from equipoise.store.records.servers import ServersStore, WantedServer
from equipoise.store.records.specs import SpecsStore
from equipoise.store.records.users import StoredUsers, UsersStore, publish_users
from equipoise.store.tree import Tree
from equipoise.store.urls import open_store

__all__ = [
    "Answer",
    "Committed",
    "HubAlive",
    "HubFacts",
    "HubSeen",
    "HubsStore",
    "LeaderFacts",
    "LeaderStore",
    "MemoryStore",
    "MemoryStoreServer",
    "MemoryTree",
    "Node",
    "PlanSettings",
    "PlanStore",
    "Read",
    "RemoteMemoryStore",
    "ServersStore",
    "SessionState",
    "SpecsStore",
    "Store",
    "StoreSettings",
    "StoredUsers",
    "Tree",
    "UsersStore",
    "WantedServer",
    "Watch",
    "WatchKind",
    "open_store",
    "publish_users",
]
