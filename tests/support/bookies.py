"""Bookies in processes of their own, and a store that they share, for tests of ledgers.

Two kinds of bookie: our own, and Apache BookKeeper's, which run from the jars that `make bookkeeper` fetches.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
import uuid
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import pytest

from equipoise.bookie.apache import find_bookkeeper
from equipoise.errors import SettingsError
from equipoise.ledger_client.bookie_pool import ReplicationSettings
from equipoise.ledger_client.ledgers import BookieLedgers
from equipoise.processes import free_port
from equipoise.profile.meters import process_cpu_s
from equipoise.store import MemoryStoreServer, MemoryTree, Store, StoreSettings, Tree, open_store
from support.processes import process_environment
from support.zookeeper import require_zookeeper, shared_zookeeper

OWN, APACHE = "own", "apache"
# A test on bookies of Java's: each takes seconds to start.
APACHE_MARKS = (pytest.mark.needs_bookkeeper, pytest.mark.timeout(400))
# For tests that run on both kinds.
BOTH_KINDS = [OWN, pytest.param(APACHE, marks=APACHE_MARKS)]
JARS = Path(os.environ.get("EQUIPOISE_BOOKKEEPER", Path(__file__).resolve().parents[2] / "bookkeeper-jars"))
# Set by `make test-bookkeeper`: a bookie of Java's takes seconds to start.
_ALL = "EQUIPOISE_TEST_BOOKKEEPER"


def require_jars() -> None:
    """Skip the test, with the reason, where Java, ZooKeeper or the jars of BookKeeper are missing."""
    require_zookeeper()
    try:
        find_bookkeeper(JARS)
    except SettingsError as problem:
        pytest.skip(str(problem))


def prepare_kind(kind: str) -> None:
    """Call it outside any loop. Skips a test of Apache BookKeeper, with the reason, unless all are asked for."""
    if kind == APACHE:
        if not os.environ.get(_ALL):
            pytest.skip(f"starts bookies of Apache BookKeeper: run `make test-bookkeeper`, or set {_ALL}=1")
        require_jars()
        shared_zookeeper()


_READY = re.compile(r"^equipoise bookie (\S+) ready on (\S+):(\d+)")
_START_TIMEOUT_S = 120.0


@dataclass
class BookieProcess:
    """One bookie that can be killed and started again in its directory."""

    name: str
    directory: Path
    store_url: str
    options: tuple[str, ...] = ()
    port: int = 0
    process: asyncio.subprocess.Process | None = None
    lines: list[str] = field(default_factory=list)
    _reading: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Raises AssertionError, with what it printed, if it ends before it is ready."""
        command = [sys.executable, "-m", "equipoise.cli.main", "bookie", "--dir", str(self.directory)]
        command += ["--store", self.store_url, "--name", self.name, "--port", str(self.port)]
        self.process = await asyncio.create_subprocess_exec(
            *command,
            *self.options,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=process_environment(),
        )
        ready = asyncio.get_running_loop().create_future()
        self._reading = asyncio.create_task(self._read(ready))
        async with asyncio.timeout(_START_TIMEOUT_S):
            port = await ready
        assert port, f"bookie {self.name} did not start:\n{''.join(self.lines)}"
        self.port = port

    async def _read(self, ready: asyncio.Future[int]) -> None:
        assert self.process is not None and self.process.stdout is not None
        async for line in self.process.stdout:
            self.lines.append(line.decode(errors="replace"))
            found = _READY.match(self.lines[-1])
            if found and not ready.done():
                ready.set_result(int(found[3]))
        if not ready.done():
            ready.set_result(0)

    async def end(self, how: signal.Signals = signal.SIGTERM) -> int:
        assert self.process is not None
        if self.process.returncode is None:
            self.process.send_signal(how)
        status = await self.process.wait()
        if self._reading is not None:
            await self._reading
        return status

    async def kill(self) -> int:
        return await self.end(signal.SIGKILL)

    def cpu_s(self) -> float:
        """CPU time so far, of Java's process too: a clock that stands still while the machine is busy with others."""
        assert self.process is not None
        pid = self.process.pid
        children = Path(f"/proc/{pid}/task/{pid}/children")
        pids = [pid, *(map(int, children.read_text().split()) if children.exists() else ())]
        return sum(map(process_cpu_s, pids))


class BookieCluster:
    """A store in this process, bookies in others, and as many clients as a test asks for."""

    def __init__(self, folder: Path, url: str, kind: str, stack: AsyncExitStack) -> None:
        self.folder = folder
        self.url = url
        self.kind = kind
        self.bookies: dict[str, BookieProcess] = {}
        self._stack = stack

    async def add(self, name: str, *options: str) -> BookieProcess:
        port = 0
        if self.kind == APACHE:
            port = free_port()
            options = ("--apache", "--jars", str(JARS), *options)
        bookie = BookieProcess(name, self.folder / name, self.url, options, port)
        self.bookies[name] = bookie
        await bookie.start()
        return bookie

    async def store(self) -> Store:
        store = await open_store(self.url, StoreSettings(session_timeout_s=10.0))
        self._stack.push_async_callback(store.close)
        return store

    async def ledgers(self, seed: int = 1) -> BookieLedgers:
        settings = ReplicationSettings(append_timeout_s=30.0)
        ledgers = BookieLedgers(await self.store(), Tree(), Random(seed), settings=settings)
        await ledgers.start()
        self._stack.push_async_callback(ledgers.close)
        return ledgers

    async def close(self) -> None:
        for bookie in self.bookies.values():
            await bookie.kill()


@asynccontextmanager
async def bookie_cluster(
    folder: Path, count: int, *options: str, kind: str = OWN, url: str = ""
) -> AsyncIterator[BookieCluster]:
    """`url` names a store; by default one in memory, for bookies of Java's a new root in ZooKeeper."""
    async with AsyncExitStack() as stack:
        if not url and kind == OWN:
            server = MemoryStoreServer(MemoryTree(asyncio.get_running_loop().time))
            await server.start()
            stack.push_async_callback(server.stop)
            url = f"eqs://127.0.0.1:{server.port}"
        cluster = BookieCluster(folder, url or zookeeper_root(), kind, stack)
        stack.push_async_callback(cluster.close)
        racks = [("--rack", f"r{number}") if kind == OWN else () for number in range(1, count + 1)]
        await asyncio.gather(
            *(cluster.add(f"b{number}", *rack, *options) for number, rack in enumerate(racks, 1))
        )
        yield cluster


def zookeeper_root() -> str:
    """A root of its own in the ZooKeeper of the tests, which runs already."""
    return f"{shared_zookeeper().url}/{uuid.uuid4().hex}"
