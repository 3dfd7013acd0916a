"""Wait for a condition without an event by polling it. The deadline is reached only by a failed test."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

__all__ = ["PATIENCE_S", "eventually", "until", "until_worked"]

# Far longer than any wait takes on a machine that is busy with other tests.
PATIENCE_S = 60.0
_INTERVAL_S = 0.005


async def until(
    is_so: Callable[[], object | Awaitable[object]],
    timeout_s: float = PATIENCE_S,
    *,
    interval_s: float = _INTERVAL_S,
) -> None:
    """Wait on the running loop, in its own time. Raises TimeoutError."""
    async with asyncio.timeout(timeout_s):
        while True:
            found = is_so()
            if await found if isinstance(found, Awaitable) else found:
                return
            await asyncio.sleep(interval_s)


async def until_worked(
    is_so: Callable[[], object | Awaitable[object]],
    worked_s: Callable[[], float],
    limit_s: float,
    *,
    interval_s: float,
) -> None:
    """Wait on the running loop until a process has worked for `limit_s`, by its CPU time `worked_s`.

    A busy machine makes the process, and so this clock, slower. Raises TimeoutError. A process that does not run at all
    is for the test's own timeout.
    """
    began_s = worked_s()
    while True:
        found = is_so()
        if await found if isinstance(found, Awaitable) else found:
            return
        if worked_s() - began_s > limit_s:
            raise TimeoutError(f"not so after {limit_s} s of the process's CPU time")
        await asyncio.sleep(interval_s)


def eventually(
    is_so: Callable[[], object],
    what: str | Callable[[], str] = "the condition",
    timeout_s: float = PATIENCE_S,
    *,
    interval_s: float = _INTERVAL_S,
) -> float:
    """Wait without a loop; return how long it took, in seconds. `what`: the condition, or a call for the error text."""
    began_at = time.monotonic()
    while not is_so():
        if time.monotonic() - began_at >= timeout_s:
            raise AssertionError(f"{what} did not come true in time" if isinstance(what, str) else what())
        time.sleep(interval_s)
    return time.monotonic() - began_at
