"""The hubs and the controller's address, followed in the store by a separate thread.

Spark's calls are synchronous; the store reports changes asynchronously. So a thread with a loop follows the store and
keeps the last state, which callers get at once. While the store is unavailable the last state is used: that makes no
hub dead.

A configured list, `name=host:port,name=host:port`, needs no thread.
"""

from __future__ import annotations

import asyncio
import logging
import re
import threading
from collections.abc import Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Protocol

from equipoise.errors import AddressError, EquipoiseError, StoreError
from equipoise.store import HubsStore, LeaderFacts, LeaderStore, Store, Tree, open_store

__all__ = ["HubDirectory", "HubEntry", "ListedHubs", "StoreDirectory", "is_store_url", "open_directory"]

log = logging.getLogger("equipoise.pipeline")

_LISTED = re.compile(
    r"(?P<name>[A-Za-z0-9._-]{1,64})=(?P<host>\[[0-9a-fA-F:.%]+\]|[A-Za-z0-9._-]+):(?P<port>\d{1,5})"
)
# Delay between attempts to open the store.
_RETRY_S = 1.0
_CLOSE_TIMEOUT_S = 6.0


@dataclass(frozen=True, slots=True)
class HubEntry:
    """The known state of a hub, without a request to it."""

    name: str
    host: str
    port: int
    site: str = ""
    rack: str = ""
    is_alive: bool = True


class HubDirectory(Protocol):
    def hubs(self, timeout_s: float) -> Mapping[str, HubEntry] | None:
        """All hubs, including dead ones; None if they are not known within this time."""
        ...

    def intake(self) -> LeaderFacts | None:
        """The leading controller; None if unknown."""
        ...

    def close(self) -> None: ...


def is_store_url(text: str) -> bool:
    return "://" in text


def open_directory(where: str, region: str = "default") -> HubDirectory:
    """From a store's address or a list of hubs. Raises AddressError."""
    return StoreDirectory(where, region) if is_store_url(where) else ListedHubs(where)


class ListedHubs:
    """Configured hubs. They always count as alive."""

    def __init__(self, text: str) -> None:
        self._hubs = {}
        for item in filter(None, text.split(",")):
            found = _LISTED.fullmatch(item.strip())
            if found is None:
                raise AddressError(
                    f"{item!r} is not a hub: write name=host:port, or give a store, zk://host:port/root"
                )
            self._hubs[found["name"]] = HubEntry(found["name"], found["host"].strip("[]"), int(found["port"]))

    def hubs(self, timeout_s: float) -> Mapping[str, HubEntry] | None:
        return self._hubs

    def intake(self) -> LeaderFacts | None:
        return None

    def close(self) -> None:
        pass


class StoreDirectory:
    """The last state of the store. The first call starts the thread, so that it may be created before a fork."""

    def __init__(self, url: str, region: str = "default") -> None:
        self._url = url
        self._tree = Tree(region)
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopped: asyncio.Event | None = None
        self._is_closed = False
        self._known = threading.Event()
        self._hubs: Mapping[str, HubEntry] = {}
        self._leader: LeaderFacts | None = None

    def hubs(self, timeout_s: float) -> Mapping[str, HubEntry] | None:
        self._start()
        return self._hubs if self._known.wait(timeout_s) else None

    def intake(self) -> LeaderFacts | None:
        self._start()
        return self._leader

    def close(self) -> None:
        self._is_closed = True
        loop, stopped, thread = self._loop, self._stopped, self._thread
        if thread is None:
            return
        if loop is not None and stopped is not None:
            try:
                loop.call_soon_threadsafe(stopped.set)
            except RuntimeError:
                pass  # It has ended already.
        thread.join(_CLOSE_TIMEOUT_S)

    def _start(self) -> None:
        if self._thread is None and not self._is_closed:
            self._thread = threading.Thread(target=self._run, name="equipoise-directory", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        asyncio.run(self._follow())

    async def _follow(self) -> None:
        self._loop, self._stopped = asyncio.get_running_loop(), asyncio.Event()
        following = asyncio.create_task(self._follow_store())
        stopping = asyncio.create_task(self._stopped.wait())
        if not self._is_closed:
            await asyncio.wait([following, stopping], return_when=asyncio.FIRST_COMPLETED)
        for task in (following, stopping):
            task.cancel()
        await asyncio.gather(following, stopping, return_exceptions=True)

    async def _follow_store(self) -> None:
        while True:
            try:
                store = await open_store(self._url)
            except StoreError as problem:
                log.warning("the store cannot be reached: %s", problem)
                await asyncio.sleep(_RETRY_S)
                continue
            try:
                async with asyncio.TaskGroup() as group:
                    group.create_task(self._follow_hubs(store))
                    group.create_task(self._follow_leader(store))
            except* EquipoiseError as problems:
                log.warning("the store cannot be followed: %s", problems.exceptions[0])
            finally:
                await store.close()
            await asyncio.sleep(_RETRY_S)

    async def _follow_hubs(self, store: Store) -> None:
        async with aclosing(HubsStore(store, self._tree).watch()) as changes:
            async for seen in changes:
                self._hubs = {
                    name: HubEntry(
                        name,
                        *_split(one.facts.address),
                        site=one.facts.site,
                        rack=one.facts.rack,
                        is_alive=one.alive is not None,
                    )
                    for name, one in seen.items()
                }
                self._known.set()

    async def _follow_leader(self, store: Store) -> None:
        async with aclosing(LeaderStore(store, self._tree).watch()) as changes:
            async for leader in changes:
                self._leader = leader


def _split(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port) if port.isdigit() else 0
