"""Open a store by its address.

zk://host:port,host:port/root    ZooKeeper; all nodes are below /root; zks:// with TLS (see `zookeeper_url`)
eqs://host:port                  a memory store in another process
memory:name                      in this process, shared by all users of this name on this loop
"""

from __future__ import annotations

import re

from equipoise.errors import AddressError
from equipoise.store.backends.memory import MemoryStore, shared_tree
from equipoise.store.backends.remote import RemoteMemoryStore
from equipoise.store.contract import Store, StoreSettings
from equipoise.store.zookeeper_url import parse_zookeeper

__all__ = ["open_store"]

_HOST = r"(?:\[[0-9a-fA-F:.%]+\]|[A-Za-z0-9._-]+)"
_SERVED = re.compile(rf"eqs://(?P<host>{_HOST}):(?P<port>\d+)")
_MEMORY = re.compile(r"memory:(?P<name>[A-Za-z0-9._-]*)")


async def open_store(url: str, settings: StoreSettings | None = None) -> Store:
    """Connect and open a session. Raises AddressError, or StoreUnavailableError if no server answers in time."""
    if address := parse_zookeeper(url):
        # Imported here, so that only processes that use ZooKeeper load its client.
        from equipoise.store.backends.zookeeper import ZooKeeperStore

        return await ZooKeeperStore(address, settings=settings).open()
    if found := _SERVED.fullmatch(url):
        return await RemoteMemoryStore(found["host"].strip("[]"), _port(url, found["port"]), settings).open()
    if found := _MEMORY.fullmatch(url):
        return await MemoryStore(shared_tree(found["name"]), settings).open()
    raise AddressError(
        f"{url!r} is not the address of a store: give zk://host:port,host:port/root, eqs://host:port or memory:name"
    )


def _port(url: str, text: str) -> int:
    if not 0 < int(text) < 65536:
        raise AddressError(f"{url!r}: a port must be between 1 and 65535")
    return int(text)
