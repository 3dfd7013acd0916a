"""Tie running code to one life of one host.

Every callback carries a context, every context names an incarnation through `HERE`, and the loop
queues the callback there. A crash ends an incarnation: whatever names it afterwards is dropped. A
restart begins the next one, so that nothing of the old life can run in the new.
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextvars import Context, ContextVar, copy_context
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from equipoise.lab.simulation.cpu import Cpu
    from equipoise.lab.simulation.link import Pipe
    from equipoise.lab.simulation.server import SimulatedServer
    from equipoise.lab.simulation.transport import SimulatedTransport

__all__ = ["HERE", "Incarnation", "IncarnationHost", "Runnable", "SimulatedTimer"]


class Runnable(Protocol):
    """What a ready queue holds: an asyncio handle, a transport with data, or a wake-up."""

    _cancelled: bool

    def _run(self) -> None: ...


class _Scheduler(Protocol):
    def activate(self, incarnation: Incarnation) -> None: ...


class IncarnationHost(Protocol):
    """A host, to the code that runs on it and to the network."""

    @property
    def loop(self) -> _Scheduler: ...
    @property
    def name(self) -> str: ...
    @property
    def number(self) -> int: ...
    @property
    def address(self) -> str: ...
    @property
    def place(self) -> str: ...
    @property
    def cpu(self) -> Cpu | None: ...
    @property
    def reads_all(self) -> bool:
        """Whether a connection brings all that has come for it at once, and connections take turns."""

    @property
    def nic_in(self) -> Pipe | None: ...
    @property
    def nic_out(self) -> Pipe | None: ...
    @property
    def is_up(self) -> bool: ...
    @property
    def is_silent(self) -> bool: ...
    @property
    def incarnation(self) -> Incarnation:
        """The present one."""

    def server_at(self, address: tuple[str, int]) -> SimulatedServer | None: ...
    def next_port(self) -> int: ...


class Incarnation:
    """One life of a host. The loop owns `ready` and `is_active`, the host owns the other flags."""

    __slots__ = (
        "cpu",
        "host",
        "is_active",
        "is_dead",
        "is_paused",
        "number",
        "reads_all",
        "ready",
        "servers",
        "transports",
    )

    def __init__(self, host: IncarnationHost, number: int) -> None:
        self.host = host
        self.cpu = host.cpu
        self.reads_all = host.reads_all
        self.number = number
        self.ready: deque[Runnable] = deque()
        # True while the loop has this incarnation on its list, or has a wake-up coming for it.
        self.is_active = False
        self.is_paused = False
        self.is_dead = False
        # Exactly the ends that this life opened and that the network may still have a use for.
        self.transports: dict[SimulatedTransport, None] = {}
        # By bound address and port; "0.0.0.0" stands for every address of the host.
        self.servers: dict[tuple[str, int], SimulatedServer] = {}

    def wake(self) -> None:
        """The processor is free again."""
        if self.is_active and not self.is_dead:
            self.is_active = False
            self.host.loop.activate(self)

    def new_context(self) -> Context:
        """A copy of the current context in which code belongs to this incarnation."""
        context = copy_context()
        context.run(HERE.set, self)
        return context


class SimulatedTimer(asyncio.TimerHandle):
    """A timer that knows whose it is."""

    __slots__ = ("incarnation",)

    incarnation: Incarnation


HERE: ContextVar[Incarnation] = ContextVar("equipoise_incarnation")
