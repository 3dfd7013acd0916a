"""Announce the phases of a run to its clients.

    begin      all clients are connected: publishers start
    conclude   all faults have ended: publishers send to each topic, again and again, messages that
               every subscriber must receive
    stop       the run is over

The runner sets the events, in this order.
"""

from __future__ import annotations

import asyncio

__all__ = ["RunPhases"]


class RunPhases:
    """Shared by the clients of one run; belongs to its loop."""

    __slots__ = ("begin", "conclude", "stop")

    def __init__(self) -> None:
        self.begin = asyncio.Event()
        self.conclude = asyncio.Event()
        self.stop = asyncio.Event()
