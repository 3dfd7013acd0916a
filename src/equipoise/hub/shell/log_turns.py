"""Turns of logs that this hub takes over: only a few change owners at a time.

A log that waits for its turn stays open at its former owner, which runs its commands. A log that its owner has released
is open at no hub, and does not wait.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

__all__ = ["TAKEN_AT_ONCE", "LogTurns"]

# Releasing and opening a log takes some tens of milliseconds, most of it CPU time, so more at once would not be faster.
TAKEN_AT_ONCE = 2


class _Waiter:
    __slots__ = ("called", "has_turn")

    def __init__(self) -> None:
        self.called: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.has_turn = False


class LogTurns:
    """Owned by LogOpener."""

    def __init__(self) -> None:
        self._taken = 0
        self._waiting: dict[object, _Waiter] = {}

    @asynccontextmanager
    async def turn(self, live: object) -> AsyncIterator[None]:
        """Wait for a turn, or until `hurry` is called."""
        waiter = self._waiting[live] = _Waiter()
        try:
            self._call_next()
            await waiter.called
            yield
        finally:
            self._waiting.pop(live, None)
            if waiter.has_turn:
                self._taken -= 1
                self._call_next()

    def hurry(self, live: object) -> None:
        """The log is open at no hub, or no longer needed here: continue without a turn."""
        waiter = self._waiting.get(live)
        if waiter is not None and not waiter.called.done():
            waiter.called.set_result(None)

    def _call_next(self) -> None:
        for waiter in self._waiting.values():
            if self._taken >= TAKEN_AT_ONCE:
                break
            if not waiter.called.done():
                self._taken += 1
                waiter.has_turn = True
                waiter.called.set_result(None)
