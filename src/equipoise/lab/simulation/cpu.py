"""Model a processor that does one thing at a time.

A host with a `Cpu` processes received data and callbacks only when the processor is free, and its
writes leave when the work charged before them is done. An overloaded host therefore queues as a
real host does. A host without a `Cpu` is infinitely fast.

Costs are seconds at speed 1. Speed is relative: a broker of 100 MHz, with costs measured at 3 GHz,
has the speed 0.033.

The costs of a hub are measured: benchmarks/results/fanout-20261115T120036-4a15259de49e.json, medians
of `cpu_us_per_delivery` of the hub, one publish per send, 2 cores of an Intel Xeon. A delivery at fan-out 1,000 is 4.42
µs, nearly all of it a send; at fan-out 1 a publish with its reply and its delivery is 23.1 µs, so 14.3 µs are a
wake-up, a receive and a command. The same with 1 kB in place of 100 B takes 2.8 µs more, for 900 bytes in and out. Not
modelled: a hub under load reads several messages per wake-up and batches its writes to one client, which takes a
twentieth of this (the pipelined rows). A simulated hub with these costs is therefore full earlier than a real hub, by
the same factor everywhere.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

__all__ = ["MEASURED", "Cpu", "CpuSpec", "measured_cpu"]


class Now(Protocol):
    """An object that knows the virtual time."""

    @property
    def now(self) -> float: ...


@dataclass(frozen=True, slots=True)
class CpuSpec:
    """Costs of work in seconds at speed 1; the two functions add to the fixed costs."""

    speed: float = 1.0
    # A received chunk: about a wake-up, a recv call and the dispatch.
    received_chunk_s: float = 0.0
    received_byte_s: float = 0.0
    # A call of `write`: about a send call.
    written_chunk_s: float = 0.0
    written_byte_s: float = 0.0
    # Cost computed from the bytes, for instance from the messages in them.
    received_cost_s: Callable[[bytes], float] | None = None
    written_cost_s: Callable[[bytes], float] | None = None


class Cpu:
    """Owned by a host. `free_at` only moves forward."""

    __slots__ = ("_clock", "busy_s", "free_at", "spec")

    def __init__(self, spec: CpuSpec, clock: Now) -> None:
        self.spec = spec
        self.free_at = 0.0
        # All work charged so far, in virtual seconds: busy_s over elapsed time is the utilisation.
        self.busy_s = 0.0
        self._clock = clock

    def charge(self, seconds: float) -> None:
        """Add `seconds` of work at speed 1 behind the work already charged."""
        work = seconds / self.spec.speed
        now = self._clock.now
        self.free_at = (self.free_at if self.free_at > now else now) + work
        self.busy_s += work

    def charge_received(self, data: bytes) -> None:
        spec = self.spec
        cost = spec.received_chunk_s + spec.received_byte_s * len(data)
        if spec.received_cost_s is not None:
            cost += spec.received_cost_s(data)
        if cost:
            self.charge(cost)

    def charge_written(self, data: bytes) -> None:
        spec = self.spec
        cost = spec.written_chunk_s + spec.written_byte_s * len(data)
        if spec.written_cost_s is not None:
            cost += spec.written_cost_s(data)
        if cost:
            self.charge(cost)


MEASURED = CpuSpec(
    received_chunk_s=14.3e-6 - 100 * 1.55e-9,
    received_byte_s=1.55e-9,
    written_chunk_s=4.42e-6 - 144 * 1.55e-9,
    written_byte_s=1.55e-9,
)


def measured_cpu(speed: float = 1.0) -> CpuSpec:
    """The measured processor, `speed` times as fast."""
    return replace(MEASURED, speed=speed)
