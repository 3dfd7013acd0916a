"""Put a world together: topology, workload, faults, duration, expectation.

A scenario is a value. Simulation, benchmarks, demo and experiments read the same ones; what none of them needs
to know is left at its default.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from equipoise.lab.scenarios.access import Access
from equipoise.lab.scenarios.faults import Fault
from equipoise.lab.scenarios.workload import Workload

__all__ = ["Expectation", "Scenario", "Topology"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """What is between the machines. A range is drawn from once per run; below zero counts as zero, so that a range
    which begins there leaves the trouble out of some runs."""

    # `lan`, `star`, `sites` or `cities`, as in equipoise.lab.simulation.topology.
    shape: str = "lan"
    latency_s: tuple[float, float] = (0.000_2, 0.000_2)
    jitter_s: tuple[float, float] = (0.0, 0.0)
    # The chance that a packet is lost, which shows as delay.
    loss: tuple[float, float] = (0.0, 0.0)
    # What the kernels of both ends buffer for one connection: small, so that a slow reader is soon felt.
    window_bytes: int = 256 * 1024
    # The chance that a received piece arrives in two.
    split: tuple[float, float] = (0.0, 0.0)
    # Between sites: (one, other, seconds).
    round_trips_s: tuple[tuple[str, str, float], ...] = ()
    # Where the hub stands; empty: a place of its own. Clients name theirs themselves.
    hub_place: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """What must hold, and how soon."""

    # Names of the checkers that must find nothing; see equipoise.lab.simulation.checkers.
    properties: tuple[str, ...] = ("once", "order", "bounded memory", "authorised only", "progress")
    # After healing: the last messages must have been acknowledged and be with every subscriber.
    progress_s: float = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One named world. A run of it is this value and a seed."""

    name: str
    summary: str
    workload: Workload
    topology: Topology = Topology()
    faults: tuple[Fault, ...] = ()
    # How long faults go on, in seconds; then everything is healed and progress is demanded.
    duration_s: float = 4.0
    expectation: Expectation = Expectation()
    access: Access | None = None
    # Fields of the hub's limits and of the client's settings, by name, where the world needs other ones.
    hub_limits: Mapping[str, int | float] = field(default_factory=dict)
    client_settings: Mapping[str, int | float] = field(default_factory=dict)
    # Left out when every case is asked for: too large for a thousand seeds.
    is_large: bool = False
