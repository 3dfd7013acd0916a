"""The scheduler of virtual time: which handle runs next, and when.

At each instant the hosts with ready callbacks take turns in an order drawn from the seed. In its turn a host
runs its callbacks in asyncio's order until none is ready. When no host has a ready callback, time advances to
the next event.

A turn lasts until the host has no ready callback, because the number of steps of one `await` differs between
Python versions and the draws must not. `shuffle` instead draws the next callback among all ready callbacks of
the host. It finds more orders, and keeps the hash equal only where asyncio takes equal steps.

Always true: `now` never decreases; no callback runs for a dead or paused incarnation.
"""

from __future__ import annotations

import gc
from collections import Counter, deque
from random import Random
from typing import TYPE_CHECKING, NoReturn, TextIO

from equipoise.errors import DeadlockError, RunawayError
from equipoise.lab.simulation.incarnation import Incarnation, Runnable, SimulatedTimer
from equipoise.lab.simulation.outside_calls import RefusingLoop
from equipoise.lab.simulation.timeline import Timeline
from equipoise.lab.simulation.trace import BATCH_NUMBERS, Trace, TraceKind
from equipoise.lab.simulation.transport import SimulatedTransport

if TYPE_CHECKING:
    from equipoise.lab.simulation.outflow import Outflow

__all__ = ["Engine"]

# Steps of a turn before other hosts run: only a program that spins on sleep(0) reaches this.
TURN_STEPS_MAX = 1_000
# Garbage collections by step count, see `Simulation.run`: young objects often, all objects rarely.
COLLECT_YOUNG_STEPS = 50_000
COLLECT_ALL_STEPS = 5_000_000


class Engine(RefusingLoop):
    """The part of the loop that owns time. The calls of asyncio programs are in `loop`."""

    _stopping: bool  # asyncio's own: set by stop()

    def __init__(
        self,
        seed: int,
        *,
        split: float,
        shuffle: bool,
        time_s_max: float,
        steps_max: int,
        sink: TextIO | None,
    ) -> None:
        super().__init__()
        self.now = 0.0
        self.timeline = Timeline()
        self.trace = Trace(sink)
        self.faults: Counter[str] = Counter()
        # Separate generators: a change in one kind of draw does not affect the other.
        self.network_random = Random(f"network {seed}")
        self._schedule_random = Random(f"schedule {seed}")
        # The chance that a received piece is split at a random byte.
        self.split = split
        self.steps = 0
        # Transports written to in the current turn.
        self.dirty: list[Outflow] = []
        # Exactly the incarnations that still need a turn at the current instant, without the running one.
        self._active: list[Incarnation] = []
        self._shuffle = shuffle
        self._time_s_max = time_s_max
        self._steps_max = steps_max
        self._collect_at = COLLECT_YOUNG_STEPS

    def enqueue(self, incarnation: Incarnation, item: Runnable) -> None:
        """Queue `item` to run on its host as soon as the host can run."""
        if incarnation.is_dead:
            return
        incarnation.ready.append(item)
        if not incarnation.is_active:
            incarnation.is_active = True
            self._active.append(incarnation)

    def activate(self, incarnation: Incarnation) -> None:
        """Schedule an incarnation that can run again."""
        if incarnation.ready and not incarnation.is_active:
            incarnation.is_active = True
            self._active.append(incarnation)

    def record(self, kind: TraceKind, subject: int, *, text: str | None = None, amount: int = 0) -> None:
        """Trace an event at the current time."""
        self.trace.add(self.now, kind, subject, text=text, amount=amount)

    def describe_waiting(self) -> str:
        """The waiting tasks of the program, one line each, for an error text."""
        return ""

    def _run_once(self) -> None:
        """Run until stopped. asyncio calls this in a loop, so one instant per call would also work."""
        active = self._active
        while not self._stopping:
            if len(active) == 1:
                self._turn(active.pop())
            elif active:
                self._turn(self._draw_incarnation())
            else:
                self._jump()

    def _draw_incarnation(self) -> Incarnation:
        """Remove a random incarnation from the list of active ones."""
        active = self._active
        index = int(self._schedule_random.random() * len(active))
        incarnation = active[index]
        active[index] = active[-1]
        active.pop()
        return incarnation

    def _jump(self) -> None:
        """Advance time to the next events and dispatch them."""
        if self.dirty:
            self._flush()
        bucket = self.timeline.take()
        at = self.timeline.taken_at
        if not bucket:
            self._raise_deadlock()
        if at > self.now:
            self._advance(at)
        for item in bucket:
            kind = type(item)
            if kind is SimulatedTransport:
                self._arrive(item)
            elif kind is SimulatedTimer:
                if not item._cancelled:
                    self.enqueue(item.incarnation, item)
            elif kind is tuple:
                self._pass_nic(item)
            else:
                item()

    def _advance(self, at: float) -> None:
        """Advance time, and flush the trace and collect garbage when due."""
        if at > self._time_s_max:
            raise RunawayError(f"virtual time would pass its cap of {self._time_s_max} s")
        self.now = at
        if len(self.trace.events) >= BATCH_NUMBERS:
            self.trace.roll()
        if self.steps >= self._collect_at:
            self._collect()

    def _raise_deadlock(self) -> NoReturn:
        raise DeadlockError(
            f"deadlock: no event is left after {self.now:.6f} s of virtual time; waiting tasks:"
            + self.describe_waiting()
        )

    def _arrive(self, transport: SimulatedTransport) -> None:
        """A token is due: a piece of data has reached its host."""
        incarnation = transport.incarnation
        if transport.is_cut_off:
            transport.undelivered += 1
        elif incarnation.is_dead:
            transport.answer_dead()
        elif incarnation.reads_all and transport.is_queued:
            transport.due += 1
        else:
            transport.is_queued = True
            incarnation.ready.append(transport)
            if not incarnation.is_active:
                incarnation.is_active = True
                self._active.append(incarnation)

    def _pass_nic(self, item: tuple[SimulatedTransport, int]) -> None:
        transport, size = item
        nic = transport.incarnation.host.nic_in
        assert nic is not None
        at = nic.carry(self.now - transport.peer.link.spread_s(size), self.now, size)
        if at > self.now:
            self.timeline.add(at, transport)
        else:
            self._arrive(transport)

    def _turn(self, incarnation: Incarnation) -> None:
        """Run a host until no callback is ready or its processor is busy, then send its writes."""
        ready = incarnation.ready
        cpu = incarnation.cpu
        left = TURN_STEPS_MAX
        while ready and left and not incarnation.is_paused and not self._stopping:
            if cpu is not None and cpu.free_at > self.now:
                break
            left -= 1
            if self._shuffle:
                self._draw(ready)
            item = ready.popleft()
            if not item._cancelled:
                item._run()
        self.steps += TURN_STEPS_MAX - left
        if self.steps > self._steps_max:
            raise RunawayError(f"more than {self._steps_max} steps; virtual time is {self.now:.6f} s")
        if self.dirty:
            self._flush()
        incarnation.is_active = False
        if ready and not incarnation.is_paused:
            self._continue_later(incarnation)

    def _continue_later(self, incarnation: Incarnation) -> None:
        """Continue an interrupted turn when the processor is free, or after the other hosts."""
        cpu = incarnation.cpu
        if cpu is not None and cpu.free_at > self.now:
            incarnation.is_active = True
            self.timeline.add(cpu.free_at, incarnation.wake)
        else:
            self.activate(incarnation)

    def _draw(self, ready: deque[Runnable]) -> None:
        """Swap a random callback with the first one."""
        if len(ready) > 1:
            index = int(self._schedule_random.random() * len(ready))
            ready[0], ready[index] = ready[index], ready[0]

    def _flush(self) -> None:
        dirty, self.dirty = self.dirty, []
        for transport in dirty:
            transport.pump()

    def _collect(self) -> None:
        self._collect_at = self.steps + COLLECT_YOUNG_STEPS
        is_full = self.steps % COLLECT_ALL_STEPS < COLLECT_YOUNG_STEPS
        gc.collect(2 if is_full else 1)

    def _forget_everything(self) -> None:
        """Drop all pending events when the loop closes."""
        self._active.clear()
        self.dirty.clear()
        self.timeline.clear()
