"""The time of an event loop in seconds, at the finest resolution: hubs and clients measure round trips with it.

Code that only waits uses the loop's own time. On a simulated loop both are the virtual time.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

__all__ = ["clock_of", "is_uvloop"]


def clock_of(loop: asyncio.AbstractEventLoop) -> Callable[[], float]:
    """uvloop counts the same seconds, but in milliseconds and once per turn."""
    return time.monotonic if is_uvloop(loop) else loop.time


def is_uvloop(loop: asyncio.AbstractEventLoop) -> bool:
    return type(loop).__module__.partition(".")[0] == "uvloop"
