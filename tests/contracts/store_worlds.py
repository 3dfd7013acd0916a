"""The stores under contract, each with the faults that can be done to it."""

from __future__ import annotations

import asyncio
import uuid
from abc import ABC, abstractmethod
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from typing import Any

from equipoise.processes import free_port
from equipoise.store import (
    MemoryStore,
    MemoryStoreServer,
    MemoryTree,
    RemoteMemoryStore,
    SessionState,
    Store,
    StoreSettings,
    open_store,
)
from support.polling import until
from support.proxy import Proxy
from support.zookeeper import shared_zookeeper

# Long enough for a busy machine; a test that gets there has failed.
PATIENCE_S = 20.0


class World(ABC):
    """One place where nodes are kept, and stores that look at it. Lives inside one `run`."""

    settings = StoreSettings(session_timeout_s=1.2, request_timeout_s=10.0)

    def __init__(self) -> None:
        self._stack = AsyncExitStack()

    def run(self, scenario: Coroutine[Any, Any, None]) -> None:
        async def play() -> None:
            async with asyncio.timeout(4 * PATIENCE_S), self._stack:
                await self._enter()
                await scenario

        asyncio.run(play())

    async def open(self, settings: StoreSettings | None = None) -> Store:
        """A store with a session of its own, closed at the end of the run."""
        store = await self._open(settings or self.settings)
        self._stack.push_async_callback(store.close)
        return store

    @abstractmethod
    async def _enter(self) -> None:
        """Start what the stores connect to."""

    @abstractmethod
    async def _open(self, settings: StoreSettings) -> Store: ...

    @abstractmethod
    async def expire(self, store: Store) -> None:
        """Make the session of a store end without its doing; returns once the store knows."""


class MemoryWorld(World):
    async def _enter(self) -> None:
        self._tree = MemoryTree(asyncio.get_running_loop().time)

    async def _open(self, settings: StoreSettings) -> Store:
        return await MemoryStore(self._tree, settings).open()

    async def expire(self, store: Store) -> None:
        self._tree.end_session(store.session)


class NetworkWorld(World):
    """Every store has a proxy of its own between it and the server."""

    def __init__(self) -> None:
        super().__init__()
        self._proxies: dict[Store, Proxy] = {}

    def proxy_of(self, store: Store) -> Proxy:
        return self._proxies[store]

    async def expire(self, store: Store) -> None:
        proxy, session = self._proxies[store], store.session
        proxy.block()
        await until(lambda: store.session != session)
        proxy.unblock()

    async def _open(self, settings: StoreSettings) -> Store:
        proxy = await self._stack.enter_async_context(Proxy(*self._address()))
        store = await self._connect(proxy.port, settings)
        self._proxies[store] = proxy
        return store

    async def connect_nowhere(self, settings: StoreSettings) -> None:
        """Open a store at an address without a server."""
        await self._connect(free_port(), settings)

    @abstractmethod
    def _address(self) -> tuple[str, int]: ...

    @abstractmethod
    async def _connect(self, port: int, settings: StoreSettings) -> Store: ...


class RemoteWorld(NetworkWorld):
    settings = StoreSettings(session_timeout_s=0.6, request_timeout_s=10.0)

    async def _enter(self) -> None:
        self._server = MemoryStoreServer(MemoryTree(asyncio.get_running_loop().time))
        await self._server.start()
        self._stack.push_async_callback(self._server.stop)

    def _address(self) -> tuple[str, int]:
        return self._server.host, self._server.port

    async def _connect(self, port: int, settings: StoreSettings) -> Store:
        return await RemoteMemoryStore("127.0.0.1", port, settings).open()


class ZooKeeperWorld(NetworkWorld):
    """Every world has a root of its own in one server that all tests share."""

    def __init__(self) -> None:
        super().__init__()
        self._root = f"/{uuid.uuid4().hex}"

    async def _enter(self) -> None:
        self._port = shared_zookeeper().port

    def _address(self) -> tuple[str, int]:
        return "127.0.0.1", self._port

    async def _connect(self, port: int, settings: StoreSettings) -> Store:
        return await open_store(f"zk://127.0.0.1:{port}{self._root}", settings)


def log_states(store: Store) -> list[SessionState]:
    """A list that grows with every state the store tells."""
    states: list[SessionState] = []
    store.listen(states.append)
    return states
