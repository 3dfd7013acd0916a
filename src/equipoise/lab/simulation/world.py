"""Assemble a simulation: one seed, one loop, one network, several hosts.

    with Simulation(seed=7, topology=Lan()) as sim:
        hub = sim.host("hub")
        hub.spawn(serve())
        sim.run(main(sim))

The same seed and program give the same run, event by event. `run` may be called several times, and
time continues. Its coroutine runs outside all hosts, on an observer without faults.
"""

from __future__ import annotations

import asyncio
import dataclasses
import gc
import random
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self, TextIO, TypeVar

from equipoise.errors import MisuseError, SimulationError
from equipoise.lab.simulation.cpu import CpuSpec
from equipoise.lab.simulation.host import Host
from equipoise.lab.simulation.loop import SimulatedLoop
from equipoise.lab.simulation.network import Network
from equipoise.lab.simulation.topology import Lan, Topology
from equipoise.lab.simulation.trace import Trace, TraceKind

__all__ = ["Simulation"]

T = TypeVar("T")

OBSERVER = "observer"
# Interval of virtual time at which awaited conditions are checked.
LOOK_S = 0.1


class Simulation:
    """A simulated world. Close it, or use it as a context manager; remaining tasks are then closed silently."""

    def __init__(
        self,
        seed: int = 0,
        *,
        topology: Topology | None = None,
        split: float = 0.0,
        shuffle: bool = False,
        time_s_max: float = 1e6,
        steps_max: int = 100_000_000,
        trace_to: TextIO | None = None,
        is_strict: bool = True,
    ) -> None:
        """`split`: chance that a received piece is split. `shuffle`: see `loop`.

        `is_strict`: fail on unhandled exceptions, which asyncio only logs.
        """
        self.seed = seed
        # Generator for scenarios, separate from those of the network and the scheduler.
        self.random = random.Random(f"world {seed}")
        self._loop = SimulatedLoop(
            seed,
            split=split,
            shuffle=shuffle,
            time_s_max=time_s_max,
            steps_max=steps_max,
            sink=trace_to,
        )
        self._network = Network(self._loop, topology or Lan(), self._loop.faults)
        self._loop.network = self._network
        self._is_strict = is_strict
        self.observer = self.host(OBSERVER)
        self._loop.outside = self.observer.incarnation

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def loop(self) -> SimulatedLoop:
        return self._loop

    @property
    def now(self) -> float:
        """Virtual seconds since the beginning."""
        return self._loop.now

    @property
    def trace(self) -> Trace:
        return self._loop.trace

    @property
    def faults(self) -> Counter[str]:
        """Number of injected faults of each kind."""
        return self._loop.faults

    @property
    def unhandled(self) -> list[dict[str, Any]]:
        """The error contexts that asyncio would log."""
        return self._loop.unhandled

    def host(
        self,
        name: str,
        *,
        place: str | None = None,
        cpu: CpuSpec | None = None,
        reads_all: bool = False,
        nic_in_bytes_per_s: float | None = None,
        nic_out_bytes_per_s: float | None = None,
        clock_offset_s: float = 0.0,
        clock_drift: float = 0.0,
    ) -> Host:
        """Create a host, or return the existing one if no properties are given."""
        hosts = self._network.hosts
        if name in hosts:
            return hosts[name]
        number = len(hosts) + 1
        host = Host(
            self._loop,
            name,
            address=f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}",
            place=place or name,
            seed=self.seed,
            cpu=cpu,
            reads_all=reads_all,
            nic_in_bytes_per_s=nic_in_bytes_per_s,
            nic_out_bytes_per_s=nic_out_bytes_per_s,
            clock_offset_s=clock_offset_s,
            clock_drift=clock_drift,
        )
        self._network.add(host)
        return host

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        """Run the world until `main` is done, and return what it returns.

        Raises errors of `main`; DeadlockError or RunawayError if it cannot or does not end; and, if
        strict, SimulationError for the first unhandled exception.
        """
        task = self.observer.spawn(main, name="main")
        with _repeatable(self.seed, self._loop):
            try:
                result = self._loop.run_until_complete(task)
            except BaseException as error:
                self._loop.collect_failures()
                for text in self._complaints():
                    error.add_note(text)
                raise
        self._loop.collect_failures()
        if self._is_strict and self.unhandled:
            context = self.unhandled[0]
            raise SimulationError("; ".join(self._complaints())) from context.get("exception")
        return result

    async def until(self, is_so: Callable[[], bool], patience_s: float) -> bool:
        """Wait for a condition in virtual time up to a limit. Returns whether the condition was met."""
        for _ in range(int(patience_s / LOOK_S) + 1):
            if is_so():
                return True
            await asyncio.sleep(LOOK_S)
        return False

    def note(self, text: str, *, host: str = OBSERVER) -> None:
        """Write a line into the trace and its hash."""
        self._loop.record(TraceKind.NOTE, self._network.hosts[host].number, text=text)

    # Faults of the network. Hosts are given by name.

    def cut(self, one: str, other: str, *, one_way: bool = False) -> None:
        """Cut the link between two hosts in both directions, or only from the first to the second."""
        self._network.cut(self._get(one), self._get(other))
        if not one_way:
            self._network.cut(self._get(other), self._get(one))

    def heal(self, one: str, other: str, *, one_way: bool = False) -> None:
        """Undo `cut`."""
        self._network.heal(self._get(one), self._get(other))
        if not one_way:
            self._network.heal(self._get(other), self._get(one))

    def isolate(self, name: str) -> None:
        """Cut a host off from all other hosts."""
        for other in [other for other in self._network.hosts if other != name]:
            self.cut(name, other)

    def rejoin(self, name: str) -> None:
        """Undo `isolate`."""
        for other in [other for other in self._network.hosts if other != name]:
            self.heal(name, other)

    def reset_connections(self, one: str, other: str) -> int:
        """Reset every connection between two hosts, also within a frame. Returns the number of connections."""
        return self._network.reset(self._get(one), self._get(other))

    async def flap(self, one: str, other: str, *, times: int, down_s: float, up_s: float) -> None:
        """Cut and heal repeatedly; each phase lasts between 0.5 and 1.5 times its duration."""
        for _ in range(times):
            self.cut(one, other)
            await asyncio.sleep(down_s * (0.5 + self.random.random()))
            self.heal(one, other)
            await asyncio.sleep(up_s * (0.5 + self.random.random()))

    def shape(self, one: str, other: str, **changes: Any) -> None:
        """Change fields of the `LinkSpec` from one host to another, in that direction only."""
        link = self._network.link(self._get(one), self._get(other))
        link.shape(dataclasses.replace(link.spec, **changes))

    def close(self) -> None:
        """Close the loop, tasks and network. The trace, the faults and `unhandled` stay readable."""
        if self._loop.is_closed():
            return
        for host in self._network.hosts.values():
            host.retire()
        self._loop.close()
        self._network.close()
        self.trace.close()

    def _get(self, name: str) -> Host:
        if name not in self._network.hosts:
            raise MisuseError(f"unknown host {name!r}")
        return self._network.hosts[name]

    def _complaints(self) -> list[str]:
        return [f"{context['message']}: {context.get('exception')!r}" for context in self.unhandled[:5]]


@contextmanager
def _repeatable(seed: int, loop: SimulatedLoop) -> Iterator[None]:
    """Remove what differs between runs: the module-level random state and the timing of the garbage collector.

    The collector's counters depend on the whole history of the process. While a simulation runs the loop
    collects garbage at fixed numbers of steps instead.
    """
    state = random.getstate()
    was_enabled = gc.isenabled()
    random.seed(f"module {seed} {loop.steps}")
    gc.disable()
    try:
        yield
    finally:
        random.setstate(state)
        if was_enabled:
            gc.enable()
