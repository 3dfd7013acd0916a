"""A store in a thread of its own, for tests that block."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, Self

from equipoise.store import HubFacts, HubsStore, MemoryStore, MemoryStoreServer, MemoryTree, Tree

REGION = "test"


class StoreThread:
    """Serves a memory store; hubs are announced and withdrawn in it by name."""

    def __init__(self) -> None:
        self.url = ""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._server: MemoryStoreServer | None = None
        self._store: MemoryStore | None = None

    def announce(self, name: str, port: int, incarnation: int = 1) -> None:
        facts = HubFacts(hub=name, address=f"127.0.0.1:{port}", incarnation=incarnation)
        self._run(self._hubs.announce(facts))

    def withdraw(self, name: str) -> None:
        self._run(self._hubs.withdraw(name))

    @property
    def _hubs(self) -> HubsStore:
        assert self._store is not None
        return HubsStore(self._store, Tree(REGION))

    def __enter__(self) -> Self:
        self._thread.start()
        self._run(self._begin())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._run(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _begin(self) -> None:
        tree = MemoryTree(self._loop.time)
        self._server = MemoryStoreServer(tree)
        await self._server.start()
        self._store = await MemoryStore(tree).open()
        self.url = f"eqs://127.0.0.1:{self._server.port}"

    async def _end(self) -> None:
        assert self._store is not None
        assert self._server is not None
        await self._store.close()
        await self._server.stop()
        # The loop has to run once more for the transports to be gone.
        await asyncio.sleep(0.01)

    def _run(self, work: Coroutine[Any, Any, Any]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(20)
