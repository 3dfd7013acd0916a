"""Supervise the store of a local cluster: its state is on disk, and hubs continue without it.

Always true: while `run` runs, a store that has ended, hangs or does not start is restarted, after pauses that grow
until
it has run without a failure for a while.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from equipoise.processes import (
    BackoffSettings,
    HealthSettings,
    Phase,
    PhaseChange,
    RestartBackoff,
    until_it_hangs,
)

__all__ = ["StoreKeeper", "StoreServer"]


class StoreServer(Protocol):
    """What is kept."""

    async def start(self) -> None: ...
    async def stop(self) -> None: ...
    async def wait(self) -> int: ...
    async def is_well(self, timeout_s: float) -> bool: ...


class StoreKeeper:
    """Supervises one server, which was started before. Owned by the task that runs it."""

    def __init__(
        self,
        name: str,
        server: StoreServer,
        *,
        on_change: Callable[[PhaseChange], None],
        backoff: BackoffSettings | None = None,
        health: HealthSettings | None = None,
    ) -> None:
        self._name = name
        self._server = server
        self._on_change = on_change
        self._backoff = RestartBackoff(backoff or BackoffSettings())
        self._health = health or HealthSettings()

    async def run(self) -> None:
        """Runs until it is cancelled; the process that started the server then stops it."""
        loop = asyncio.get_running_loop()
        # Its first start is reported together with those of the other parts.
        started_at, reason = loop.time(), await self._life()
        while True:
            pause_s = self._backoff.pause_s(loop.time() - started_at)
            self._on_change(PhaseChange(self._name, Phase.WAITING, f"{reason}; again in {pause_s:.1f} s"))
            await asyncio.sleep(pause_s)
            started_at = loop.time()
            self._on_change(PhaseChange(self._name, Phase.STARTING))
            try:
                await self._server.start()
            except Exception as problem:
                # Any cause, such as a full disk or a port in use, may be gone at the next attempt.
                reason = f"does not start: {problem}"
                continue
            self._on_change(PhaseChange(self._name, Phase.READY))
            reason = await self._life()

    async def _life(self) -> str:
        """Wait for the end of a running server, or until it hangs and is stopped; return which."""
        loop = asyncio.get_running_loop()
        began_at = loop.time()
        ending = asyncio.create_task(self._server.wait())
        watching = asyncio.create_task(
            until_it_hangs(self._check, self._health, lived_s=lambda: loop.time() - began_at)
        )
        try:
            await asyncio.wait((ending, watching), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (ending, watching):
                task.cancel()
            await asyncio.gather(ending, watching, return_exceptions=True)
        if not ending.cancelled():
            return f"ended with status {ending.result()}"
        await self._server.stop()
        return watching.result()

    async def _check(self, lived_s: float) -> bool:
        return await self._server.is_well(self._health.timeout_s)
