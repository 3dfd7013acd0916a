"""The time of an event loop in seconds, and waits with a limit.

Hubs and clients measure round trips at the finest resolution. Code that only waits uses the loop's own time. On a
simulated loop both are the virtual time.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from functools import partial
from typing import Any

__all__ = ["clock_of", "done_within", "is_uvloop"]


def clock_of(loop: asyncio.AbstractEventLoop) -> Callable[[], float]:
    """uvloop counts the same seconds, but in milliseconds and once per turn."""
    return time.monotonic if is_uvloop(loop) else loop.time


def is_uvloop(loop: asyncio.AbstractEventLoop) -> bool:
    return type(loop).__module__.partition(".")[0] == "uvloop"


async def done_within(future: asyncio.Future[Any], seconds: float) -> bool:
    """Wait until `future` is done, at most for `seconds`; return whether it is done.

    The same as `asyncio.wait` with one future at less than half of its cost: no sets, no tasks.
    """
    if future.done():
        return True
    loop = asyncio.get_running_loop()
    waiter: asyncio.Future[None] = loop.create_future()
    release = partial(_release, waiter)
    timer = loop.call_later(seconds, release)
    future.add_done_callback(release)
    try:
        await waiter
    finally:
        timer.cancel()
        future.remove_done_callback(release)
    return future.done()


def _release(waiter: asyncio.Future[None], _done: object = None) -> None:
    if not waiter.done():
        waiter.set_result(None)
