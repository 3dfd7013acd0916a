"""Open a store by its address.

zk://host:port,host:port/root    ZooKeeper; everything is kept under /root
eqs://host:port                  a memory store that another process serves
memory:name                      in this process, shared by all that give this name on this loop
"""

from __future__ import annotations

import re

from equipoise.errors import AddressError, MisuseError
from equipoise.store.backends.memory import MemoryStore, shared_tree
from equipoise.store.backends.remote import RemoteMemoryStore
from equipoise.store.contract import Store, StoreSettings
from equipoise.store.paths import check_path

__all__ = ["ZOOKEEPER_PORT", "open_store", "zookeeper_hosts"]

ZOOKEEPER_PORT = 2181

_HOST = r"(?:\[[0-9a-fA-F:.%]+\]|[A-Za-z0-9._-]+)"
_ZOOKEEPER = re.compile(rf"zk://(?P<hosts>{_HOST}(?::\d+)?(?:,{_HOST}(?::\d+)?)*)(?P<root>/.*)?")
_SERVED = re.compile(rf"eqs://(?P<host>{_HOST}):(?P<port>\d+)")
_MEMORY = re.compile(r"memory:(?P<name>[A-Za-z0-9._-]*)")


async def open_store(url: str, settings: StoreSettings | None = None) -> Store:
    """Connect and open a session. Raises AddressError, or StoreUnavailableError if nobody answers in time."""
    if found := _ZOOKEEPER.fullmatch(url):
        # Here, so that only those who use ZooKeeper load its client.
        from equipoise.store.backends.zookeeper import ZooKeeperStore

        hosts = ",".join(_with_port(host) for host in found["hosts"].split(","))
        return await ZooKeeperStore(hosts, root=_root(url, found["root"]), settings=settings).open()
    if found := _SERVED.fullmatch(url):
        return await RemoteMemoryStore(found["host"].strip("[]"), _port(url, found["port"]), settings).open()
    if found := _MEMORY.fullmatch(url):
        return await MemoryStore(shared_tree(found["name"]), settings).open()
    raise AddressError(
        f"{url!r} is no address of a store: give zk://host:port,host:port/root, eqs://host:port or memory:name"
    )


def zookeeper_hosts(url: str) -> str | None:
    """What kazoo takes for an address of ours: hosts with ports, and the root. None if it names no ZooKeeper."""
    found = _ZOOKEEPER.fullmatch(url)
    if found is None:
        return None
    return ",".join(_with_port(host) for host in found["hosts"].split(",")) + _root(
        url, found["root"]
    ).rstrip("/")


def _with_port(host: str) -> str:
    has_port = re.search(r":\d+$", host) and not host.endswith("]")
    return host if has_port else f"{host}:{ZOOKEEPER_PORT}"


def _port(url: str, text: str) -> int:
    if not 0 < int(text) < 65536:
        raise AddressError(f"{url!r}: a port lies between 1 and 65535")
    return int(text)


def _root(url: str, text: str | None) -> str:
    root = (text or "").rstrip("/") or "/"
    try:
        check_path(root)
    except MisuseError as problem:
        raise AddressError(f"{url!r}: {problem}") from problem
    return root
