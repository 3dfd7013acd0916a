"""Storage of logs for a hub without a cluster: `equipoise hub --data FOLDER`.

A lone hub is a region of one hub. Its folder has `store`, the journalled tree that clusters have in ZooKeeper;
`bookie`,
the directory of a bookie, which is a child process that the hub restarts if it ends; `bookie.log`; and `store-address`,
the address of the tree for commands such as `equipoise topics` while the hub runs.

The tree is served on loopback without a password, so any process on this machine that finds the port may change it. A
hub with users does not write the address into the folder; only its bookie gets it.

The hub serves clients before its bookie has started: commands on logs wait for it, at most as long as for any reply.
"""

from __future__ import annotations

import asyncio
import logging
import re
import sys
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager, suppress
from pathlib import Path
from random import Random, SystemRandom

from equipoise.cli.support.folders import held
from equipoise.disk import DirectoryDisk
from equipoise.errors import StoreError
from equipoise.hub import Hub
from equipoise.ledger.log import OpenLedger
from equipoise.ledger.quorum import Quorum
from equipoise.ledger_client.ledgers import BookieLedgers
from equipoise.processes import ChildSpec, Phase, PhaseChange, Supervisor
from equipoise.store.backends.journal import JournalledTree
from equipoise.store.backends.memory import MemoryStore
from equipoise.store.backends.memory_server import MemoryStoreServer
from equipoise.store.contract import Store
from equipoise.store.records.specs import SpecsStore
from equipoise.store.tree import Tree

__all__ = ["ADDRESS_FILE", "lone_logs"]

log = logging.getLogger("equipoise.hub")

ADDRESS_FILE = "store-address"
_BOOKIE_READY = re.compile(r"^equipoise bookie \S+ ready on", re.MULTILINE)
# How long logs wait for the first start of the bookie before they are refused: Python starts in a second, or in many
# seconds on a busy machine.
_PATIENCE_S = 10.0
# One bookie on one disk: acknowledged entries are synced.
_QUORUM = Quorum(1, 1, 1)


@asynccontextmanager
async def lone_logs(hub: Hub, folder: Path) -> AsyncIterator[None]:
    """Set up the storage of logs for a running hub, for the duration of the block."""
    # Two hubs with one folder would overwrite each other's tree.
    with held(folder, lock="lock", taken="another hub uses the folder"):
        loop = asyncio.get_running_loop()
        nodes = JournalledTree(loop.time, DirectoryDisk(folder / "store"))
        server = MemoryStoreServer(nodes)
        await server.start()
        store = await MemoryStore(nodes).open()
        supervisor = Supervisor(on_change=_tell)
        tree = Tree(hub.settings.membership.region)
        ledgers = _LoneLedgers(store, tree, SystemRandom())
        tasks: list[asyncio.Task[None]] = []
        address = f"eqs://{server.host}:{server.port}"
        bookie = _bookie(hub.settings.name, folder, address, tree.region)
        try:
            tasks.append(asyncio.create_task(_start_bookie(supervisor, bookie, ledgers)))
            if hub.core.users.is_open:
                (folder / ADDRESS_FILE).write_text(f"{address}\n", encoding="ascii")
            await ledgers.start()
            hub.use_logs(store, tree, ledgers, lambda: _QUORUM)
            specs = SpecsStore(store, tree)
            known = await specs.load_with_version()
            hub.follow_specs(known.specs, known.version)
            tasks.append(asyncio.create_task(_follow(hub, specs)))
            # A client that waits for the hub's ready line finds logs ready, too.
            await ledgers.is_started.wait()
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            (folder / ADDRESS_FILE).unlink(missing_ok=True)
            await ledgers.close()
            await supervisor.stop()
            await store.close()
            await server.stop()


class _LoneLedgers(BookieLedgers):
    """Ledgers whose only bookie is starting: requests wait until it is available, or will not be soon."""

    more_bookies = "read bookie.log in the folder of --data"

    def __init__(self, store: Store, tree: Tree, random: Random) -> None:
        super().__init__(store, tree, random)
        self.is_started = asyncio.Event()

    async def create(self, topic: bytes, epoch: int, quorum: Quorum) -> OpenLedger:
        await self.is_started.wait()
        return await super().create(topic, epoch, quorum)

    async def recover(self, ledger: int) -> int:
        await self.is_started.wait()
        return await super().recover(ledger)


async def _start_bookie(supervisor: Supervisor, bookie: ChildSpec, ledgers: _LoneLedgers) -> None:
    try:
        # If the bookie does not start in time, the hub serves without it: logs are refused until it does.
        with suppress(TimeoutError):
            await supervisor.keep(bookie, patience_s=_PATIENCE_S)
        # Now, without waiting for the watch.
        with suppress(StoreError):
            await ledgers.pool.refresh()
    finally:
        ledgers.is_started.set()


async def _follow(hub: Hub, specs: SpecsStore) -> None:
    """Apply every change of the specs, without end."""
    async with aclosing(specs.watch_with_version()) as changes:
        async for stored in changes:
            hub.follow_specs(stored.specs, stored.version)


def _bookie(name: str, folder: Path, store: str, region: str) -> ChildSpec:
    words = ["bookie", "--dir", str(folder / "bookie"), "--store", store, "--region", region]
    return ChildSpec(
        name="bookie",
        command=[sys.executable, "-m", "equipoise.cli.main", *words, "--name", name, "--port", "0"],
        log_path=folder / "bookie.log",
        ready=_BOOKIE_READY,
        environment={"PYTHONUNBUFFERED": "1"},
    )


def _tell(change: PhaseChange) -> None:
    if change.phase is Phase.WAITING:
        log.error("the bookie of this hub has ended: %s", change.detail)
    else:
        log.info("bookie: %s", change.phase)
