"""A hub with logs in memory, as a process: for tests of what stands on ledgers, whichever ledgers they are."""

from __future__ import annotations

import asyncio
import sys

from equipoise.cli.hub import say_ready
from equipoise.hub import Hub, HubSettings
from equipoise.ledger.memory import MemoryLedgers
from equipoise.ledger.quorum import Quorum
from equipoise.store.backends.memory import MemoryStore, shared_tree
from equipoise.store.tree import Tree


async def main() -> None:
    hub = Hub(HubSettings(name="h1", port=0))
    await hub.start()
    store = await MemoryStore(shared_tree("logs")).open()
    hub.use_logs(store, Tree(), MemoryLedgers(asyncio.get_running_loop().call_soon), Quorum(1, 1, 1))
    say_ready(hub, None)
    await asyncio.Event().wait()


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
