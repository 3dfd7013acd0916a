"""The store is restarted until it runs."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest

from equipoise.errors import StoreUnavailableError
from equipoise.local.store_process import StoreKeeper
from equipoise.processes import BackoffSettings, HealthSettings, Phase, PhaseChange
from equipoise.store.embedded import zookeeper_process
from equipoise.store.embedded.zookeeper_process import EmbeddedSettings, EmbeddedZooKeeper
from local.up_world import require_java
from support.polling import until

QUICK = BackoffSettings(first_s=0.1, longest_s=0.4, forgiven_after_s=30.0)
HASTY = HealthSettings(every_s=0.01, timeout_s=0.5, failures_max=3)


class Server:
    """Runs until it is told to end; starts as often as `luck` says."""

    def __init__(self, *luck: bool) -> None:
        self.luck = list(luck)
        self.starts = 0
        self.is_good = True
        self.over = asyncio.Event()

    async def start(self) -> None:
        self.starts += 1
        if self.luck and not self.luck.pop(0):
            raise StoreUnavailableError("the disk is full")
        self.over.clear()

    async def stop(self) -> None:
        self.over.set()

    async def wait(self) -> int:
        await self.over.wait()
        return -9

    async def is_well(self, timeout_s: float) -> bool:
        return self.is_good


def test_a_store_that_does_not_start_is_retried_after_growing_delays() -> None:
    async def scene() -> None:
        server, changes = Server(False, False, False, True), list[PhaseChange]()
        keeper = StoreKeeper("store", server, on_change=changes.append, backoff=QUICK, health=HASTY)
        running = asyncio.create_task(keeper.run())
        server.over.set()
        await until(lambda: any(change.phase is Phase.READY for change in changes))
        assert server.starts == 4 and not running.done()
        # A start that succeeded is not yet a good run.
        server.over.set()
        await until(lambda: server.starts == 5)
        running.cancel()
        waits = [change.detail for change in changes if change.phase is Phase.WAITING]
        assert waits[0].startswith("ended with status -9") and "does not start: the disk is full" in waits[1]
        assert [wait.rpartition("again in ")[2] for wait in waits] == [
            "0.1 s",
            "0.2 s",
            "0.4 s",
            "0.4 s",
            "0.4 s",
        ]

    asyncio.run(scene())


def test_a_store_that_hangs_is_stopped_and_started_again() -> None:
    async def scene() -> None:
        server, changes = Server(), list[PhaseChange]()
        keeper = StoreKeeper("store", server, on_change=changes.append, backoff=QUICK, health=HASTY)
        running = asyncio.create_task(keeper.run())
        server.is_good = False
        await until(lambda: server.starts == 1)
        server.is_good = True
        await until(lambda: changes[-1].phase is Phase.READY)
        assert "hangs" in changes[0].detail
        running.cancel()

    asyncio.run(scene())


@pytest.mark.needs_java
def test_a_real_store_starts_after_a_failed_restart_and_its_log_continues(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """1. The JVM is killed. 2. The next one ends at once. 3. The one after it serves again."""
    require_java()
    main, broken = zookeeper_process._MAIN, "org.example.Nothing"

    async def scene() -> None:
        changes: list[PhaseChange] = []
        server = EmbeddedZooKeeper(EmbeddedSettings(directory=tmp_path))
        await server.start()
        keeper = StoreKeeper("store", server, on_change=changes.append, backoff=QUICK)
        running = asyncio.create_task(keeper.run())
        assert server.pid is not None
        monkeypatch.setattr(zookeeper_process, "_MAIN", broken)
        os.kill(server.pid, signal.SIGKILL)
        await until(lambda: any("does not start" in change.detail for change in changes))
        monkeypatch.setattr(zookeeper_process, "_MAIN", main)
        await until(lambda: any(change.phase is Phase.READY for change in changes))
        assert await server.is_well()
        running.cancel()
        await server.stop()
        # What the second one said is still there after the third has started.
        assert broken in server.log_path.read_text()

    asyncio.run(scene())
