"""Tie running code to one life of one host.

Every callback carries a context, every context names an incarnation through `HERE`, and the loop
queues the callback there. A crash ends an incarnation, and the loop drops its later callbacks. A
restart begins the next incarnation, so that no old code can run in it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from contextvars import Context, ContextVar, copy_context
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from equipoise.lab.simulation.cpu import Cpu
    from equipoise.lab.simulation.link import Pipe
    from equipoise.lab.simulation.server import SimulatedServer
    from equipoise.lab.simulation.timeline import Timeline
    from equipoise.lab.simulation.transport import SimulatedTransport

__all__ = ["HERE", "Incarnation", "IncarnationHost", "Runnable", "SimulatedHandle", "SimulatedTimer"]


class Runnable(Protocol):
    """An item of a ready queue: an asyncio handle, a transport with data, or a wake-up."""

    _cancelled: bool

    def _run(self) -> None: ...


class _TimeLoop(Protocol):
    @property
    def timeline(self) -> Timeline: ...


class _Scheduler(Protocol):
    def activate(self, incarnation: Incarnation) -> None: ...


class IncarnationHost(Protocol):
    """A host as its programs and the network see it."""

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
        """Whether a read returns all received data of a connection, and connections take turns."""

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
        """The current incarnation."""

    def server_at(self, address: tuple[str, int]) -> SimulatedServer | None: ...
    def next_port(self) -> int: ...


class Incarnation:
    """One incarnation of a host. The loop owns `ready` and `is_active`, the host owns the other flags."""

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
        # True while this incarnation is in the loop's list or has a scheduled wake-up.
        self.is_active = False
        self.is_paused = False
        self.is_dead = False
        # Exactly the ends opened by this incarnation that the network may still use.
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


class SimulatedHandle(asyncio.Handle):
    """A callback in a ready queue. Sets what asyncio's constructor sets, without its query of the debug mode."""

    __slots__ = ()

    def __init__(
        self,
        callback: Callable[..., object],
        args: Sequence[Any],
        loop: asyncio.AbstractEventLoop,
        context: Context,
    ) -> None:
        self._callback = callback
        self._args = args
        self._loop = loop
        self._context = context
        self._cancelled = False
        self._repr = self._source_traceback = None


class SimulatedTimer(asyncio.TimerHandle):
    """A timer that knows its incarnation; see `SimulatedHandle`."""

    __slots__ = ("incarnation",)

    def __init__(
        self,
        when: float,
        callback: Callable[..., object],
        args: Sequence[Any],
        loop: _TimeLoop,
        context: Context,
        incarnation: Incarnation,
    ) -> None:
        self._when = when
        self._callback: Callable[..., object] | None = callback
        self._args = args
        self._loop = loop
        self._context = context
        self._cancelled = self._scheduled = False
        self._repr = self._source_traceback = None
        self.incarnation = incarnation

    def cancel(self) -> None:
        if not self._cancelled:
            self._cancelled = True
            self._loop.timeline.discard(self._when)
            # As asyncio does: the callback may refer to the timer.
            self._callback = None
            self._args = ()


HERE: ContextVar[Incarnation] = ContextVar("equipoise_incarnation")
