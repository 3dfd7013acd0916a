"""Run heavy work beside the event loop: decoding a plan of 100,000 entries takes a quarter of a second.

The work is a pure function of immutable values. On the simulated loop it runs at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar, TypeVarTuple

__all__ = ["HEAVY_BYTES", "HEAVY_ENTRIES", "offload"]

# From this size on a thread is worthwhile: a loop may be blocked for a millisecond or two.
HEAVY_BYTES = 32 * 1024
HEAVY_ENTRIES = 2_000

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


async def offload(is_heavy: bool, work: Callable[[*Ts], T], *args: *Ts) -> T:
    """The result of the work, done in a thread if it is heavy. Raises what the work raises."""
    if not is_heavy:
        return work(*args)
    return await asyncio.get_running_loop().run_in_executor(None, work, *args)
