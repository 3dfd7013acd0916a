"""Model a machine that runs one program: clocks, processor, network interface, disk, and its lives.

A host crashes, restarts, pauses and thaws. A crash runs no `finally`: the program just stops. A paused
host loses nothing: its callbacks, timers and data wait until it thaws, and its sockets stay open.

All hosts share the loop's exact monotonic clock. A host's wall clock starts at a fixed date, runs fast or slow by a
ratio and can be stepped, as on a badly synchronised machine.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import cached_property
from random import Random
from typing import TYPE_CHECKING, Any, TypeVar

from equipoise.errors import MisuseError
from equipoise.lab.simulation.cpu import Cpu, CpuSpec, Now
from equipoise.lab.simulation.disk import SimulatedDisk
from equipoise.lab.simulation.incarnation import Incarnation
from equipoise.lab.simulation.link import Pipe
from equipoise.lab.simulation.outflow import Control
from equipoise.lab.simulation.trace import TraceKind

if TYPE_CHECKING:
    from equipoise.lab.simulation.loop import SimulatedLoop
    from equipoise.lab.simulation.server import SimulatedServer

__all__ = ["Host", "WallClock"]

# Virtual time 0 on a correct wall clock, in seconds since 1970: an arbitrary round number.
EPOCH_S = 1_700_000_000.0


class WallClock:
    """Owned by a host; survives its crashes. Pass `clock.time` where code takes a `time.time`."""

    __slots__ = ("_base_now", "_base_s", "_drift", "_monotonic")

    def __init__(self, monotonic: Now, *, offset_s: float = 0.0, drift: float = 0.0) -> None:
        self._monotonic = monotonic
        self._base_now = monotonic.now
        self._base_s = EPOCH_S + monotonic.now + offset_s
        self._drift = drift

    def time(self) -> float:
        """Seconds since 1970 on this host's clock."""
        return self._base_s + (self._monotonic.now - self._base_now) * (1.0 + self._drift)

    def step(self, seconds: float) -> None:
        """Set the clock forward, or back if negative, at once."""
        self._rebase(seconds)

    def set_drift(self, drift: float) -> None:
        """Let the clock gain `drift` seconds per true second from now on, without a step."""
        self._rebase(0.0)
        self._drift = drift

    @property
    def error_s(self) -> float:
        """How far this clock is ahead of a correct clock."""
        return self.time() - EPOCH_S - self._monotonic.now

    def _rebase(self, step_s: float) -> None:
        self._base_s = self.time() + step_s
        self._base_now = self._monotonic.now


T = TypeVar("T")

FIRST_EPHEMERAL_PORT = 49152
# Queue of a network interface: Linux's txqueuelen of 1,000 full packets.
NIC_QUEUE_BYTES_MAX = 1_500_000
# Upper bound of the queue in seconds of a slow interface: systems also bound the delay of their queues.
NIC_QUEUE_S_MAX = 1.0


class Host:
    """Created by `Simulation.host`. All faults go through its methods, which count and trace them."""

    def __init__(
        self,
        loop: SimulatedLoop,
        name: str,
        *,
        address: str,
        place: str,
        seed: int,
        cpu: CpuSpec | None = None,
        reads_all: bool = False,
        nic_in_bytes_per_s: float | None = None,
        nic_out_bytes_per_s: float | None = None,
        clock_offset_s: float = 0.0,
        clock_drift: float = 0.0,
    ) -> None:
        self.loop = loop
        self.name = name
        self.address = address
        # Place of the host in the topology: a site, a city, or its own name.
        self.place = place
        self.number = loop.trace.register_host(name)
        self._seed = seed
        self.clock = WallClock(loop, offset_s=clock_offset_s, drift=clock_drift)
        self.cpu = None if cpu is None else Cpu(cpu, loop)
        # Whether a read returns all received data of a connection, as for a program that is slow to read.
        # Otherwise the host reads pieces one by one in the order of their arrival on all connections.
        self.reads_all = reads_all
        self.nic_in = self._pipe(nic_in_bytes_per_s)
        self.nic_out = self._pipe(nic_out_bytes_per_s)
        self.disk = SimulatedDisk(self, loop, seed)
        # False between a crash and the restart.
        self.is_up = True
        # True if the host is down and does not answer with a reset.
        self.is_silent = False
        self.incarnation = Incarnation(self, 1)
        self._ports = FIRST_EPHEMERAL_PORT

    def __repr__(self) -> str:
        return f"<Host {self.name} {self.address} #{self.incarnation.number}>"

    @cached_property
    def random(self) -> Random:
        """Random generator for programs on this host. It survives crashes."""
        return Random(f"host {self.name} {self._seed}")

    def spawn(self, coroutine: Coroutine[Any, Any, T], *, name: str | None = None) -> asyncio.Task[T]:
        """Run a coroutine on this host, in its current incarnation.

        After a crash the task stays pending for ever: do not wait for it. An exception
        that is never retrieved makes `Simulation.run` fail.
        """
        if not self.is_up:
            coroutine.close()
            raise MisuseError(f"host {self.name!r} is down; restart it before spawning on it")
        task = self.loop.create_task(coroutine, name=name, context=self.incarnation.new_context())
        self.loop.spawned.append(task)
        return task

    def call(self, function: Callable[..., T], *args: Any) -> T:
        """Call a function at once as code of this host."""
        return self.incarnation.new_context().run(function, *args)

    # Faults.

    def crash(self, *, silent: bool = False) -> None:
        """Stop the program at once, without `finally`, and lose unsynced disk data.

        Peers see a reset. A silent crash is a power cut: peers see a reset only when they send to
        the restarted host.
        """
        if not self.is_up:
            return
        dead = self.incarnation
        self.is_up = False
        self.is_silent = silent
        dead.is_dead = True
        dead.ready.clear()
        self.loop.retain_tasks(dead)
        for end in dead.transports:
            end.drop()
            # Data delayed by a cut was in this machine's memory and is lost.
            for _ in range(min(end.peer.undelivered, len(end.peer.arriving))):
                end.peer.arriving.pop()
            end.peer.undelivered = 0
            if not silent and not end.peer.is_finished:
                end.transmit(Control.RESET, 0)
        dead.servers.clear()
        self.disk.crash()
        if self.cpu is not None:
            self.cpu.free_at = 0.0
        self.loop.faults["crash"] += 1
        self.loop.record(TraceKind.CRASH, self.number)

    def restart(self) -> None:
        """Start a new incarnation without programs. The disk holds the synced data."""
        if self.is_up:
            raise MisuseError(f"host {self.name!r} is up; crash it before restarting it")
        dead, was_silent = self.incarnation, self.is_silent
        self.is_up = True
        self.is_silent = False
        self.incarnation = Incarnation(self, dead.number + 1)
        if was_silent:
            for end in dead.transports:
                if end.peer.in_flight or end.peer.get_write_buffer_size():
                    end.answer_dead()
        self.loop.faults["restart"] += 1
        self.loop.record(TraceKind.RESTART, self.number)

    def pause(self) -> None:
        """Pause the program as a garbage collector or hypervisor does. Nothing is lost."""
        if not self.is_up or self.incarnation.is_paused:
            return
        self.incarnation.is_paused = True
        self.loop.faults["pause"] += 1
        self.loop.record(TraceKind.PAUSE, self.number)

    def thaw(self) -> None:
        """Resume a paused program: waiting callbacks run now, in order."""
        incarnation = self.incarnation
        if not incarnation.is_paused:
            return
        incarnation.is_paused = False
        self.loop.activate(incarnation)
        self.loop.record(TraceKind.THAW, self.number)

    def step_clock(self, seconds: float) -> None:
        """Set the wall clock forward or back."""
        self.clock.step(seconds)
        self.loop.faults["clock step"] += 1
        self.loop.record(TraceKind.CLOCK, self.number, text=f"{seconds:+.6f}s")

    def retire(self) -> None:
        """End the current incarnation without notice to its peers: the simulation is closing."""
        self.incarnation.is_dead = True
        self.incarnation.ready.clear()
        for end in self.incarnation.transports:
            end.drop()
        self.incarnation.transports.clear()
        self.incarnation.servers.clear()
        self.disk.generation += 1

    # Called by the network.

    def server_at(self, address: tuple[str, int]) -> SimulatedServer | None:
        """The server that accepts connections to this address, if any."""
        servers = self.incarnation.servers
        server = servers.get(address) or servers.get(("0.0.0.0", address[1]))
        return server if server is not None and server.is_serving() else None

    def next_port(self) -> int:
        """The next ephemeral port, in a cycle."""
        port = self._ports
        self._ports = port + 1 if port < 65535 else FIRST_EPHEMERAL_PORT
        return port

    def _pipe(self, rate: float | None) -> Pipe | None:
        if rate is None:
            return None
        queue_bytes_max = min(NIC_QUEUE_BYTES_MAX, int(NIC_QUEUE_S_MAX * rate))
        return Pipe(rate, queue_bytes_max, self.loop.timeline.add)
