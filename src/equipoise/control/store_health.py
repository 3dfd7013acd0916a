"""What the controller cannot read from the store or write to it, and how it tries again.

A controller survives every failure of the store: each of its tasks begins again after a pause, and decisions rest on
the last state that was read. Only a store that its owner has closed ends a task.

Always true: a problem is logged when it appears and when it is over, and shown in between.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from equipoise.errors import StoreError
from equipoise.store import SessionState, Store

__all__ = ["StoreHealth"]

log = logging.getLogger("equipoise.control")

# Pauses before the next attempt, in seconds: doubled from the first to the last. A request has waited for its own
# time-out by then, so that a store under load is not asked more often than once in that time.
RETRY_S = 0.1
RETRY_S_MAX = 5.0


class StoreHealth:
    """Owned by the controller; shared by its tasks."""

    def __init__(self, store: Store) -> None:
        self._store = store
        # By what cannot be done, the last error.
        self._problems: dict[str, str] = {}

    @property
    def problem(self) -> str:
        """For display; empty if there is none."""
        state = self._store.state
        parts = [] if state is SessionState.CONNECTED else [f"the session with the store is {state}"]
        return "; ".join([*parts, *(f"{what}: {text}" for what, text in self._problems.items())])

    def failed(self, what: str, problem: StoreError) -> None:
        text = str(problem)
        if self._problems.get(what) != text:
            log.warning("%s: %s; trying again", what, text)
        self._problems[what] = text

    def worked(self, what: str) -> None:
        if self._problems.pop(what, None) is not None:
            log.info("%s: the store answers again", what)

    async def keep(self, what: str, work: Callable[[], Awaitable[None]]) -> None:
        """Run `work` until it is cancelled, again after each StoreError. It calls `worked` when it has succeeded."""
        pause_s = RETRY_S
        while True:
            try:
                await work()
            except StoreError as problem:
                if what not in self._problems:
                    pause_s = RETRY_S
                self.failed(what, problem)
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, RETRY_S_MAX)
