"""Run one seed of one scenario and check it.

A run has two phases. First the workload runs under faults, and all guarantees must hold. Then the faults are
healed, and messages of each publisher on each of its topics must soon reach every subscriber.

The same scenario and seed give the same run, event by event and with the same trace hash, on every supported Python.
"""

from __future__ import annotations

import gc
import logging
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from math import fsum
from operator import attrgetter
from random import Random
from time import perf_counter
from typing import TextIO, TypeAlias

from equipoise.errors import EquipoiseError
from equipoise.lab.scenarios import ClusterScenario, Scenario
from equipoise.lab.scenarios.durable import DurableScenario, LogScenario
from equipoise.lab.simulation.checkers import CHECKERS, Violation
from equipoise.lab.simulation.cluster.faults import play
from equipoise.lab.simulation.cluster.planned_edges import PLANNED_STORIES
from equipoise.lab.simulation.cluster.session_stories import SESSION_STORIES
from equipoise.lab.simulation.cluster.stories import STORIES, TappedWire, begin_story, tapped
from equipoise.lab.simulation.cluster.world import ClusterWorld
from equipoise.lab.simulation.durable.logs_world import LogsWorld
from equipoise.lab.simulation.durable.world import DurableWorld
from equipoise.lab.simulation.hub_world import HubWorld
from equipoise.lab.simulation.link import LinkSpec
from equipoise.lab.simulation.rules import quick_secrets
from equipoise.lab.simulation.topology import Cities, Lan, LongWay, Sites, Star, Topology, Uneven
from equipoise.lab.simulation.world import Simulation
from equipoise.lab.workload import History

__all__ = ["Run", "run_seed"]

LINES_KEPT = 40
# The property that an unhandled exception violates.
CLEAN = "no unhandled errors"


@dataclass(frozen=True, slots=True)
class Run:
    """The result of one seed."""

    case: str
    seed: int
    violations: tuple[Violation, ...]
    trace_hash: str
    faults: Counter[str] = field(default_factory=Counter)
    messages: int = 0
    deliveries: int = 0
    # Virtual seconds.
    seconds: float = 0.0
    # Real seconds, for the speed of the case.
    wall_s: float = field(default=0.0, compare=False)
    # The last lines of the trace of a failed run.
    lines: tuple[str, ...] = ()

    @property
    def is_green(self) -> bool:
        return not self.violations


def run_seed(
    scenario: Scenario,
    seed: int,
    *,
    trace_to: TextIO | None = None,
    prepare: Callable[[ClusterWorld], None] | None = None,
    topology: Topology | None = None,
) -> Run:
    """Run a seed and check it. Errors of simulated programs are violations and are not raised.

    `prepare` is called with a world of several hubs before it starts, for instance to add a story; `topology` replaces
    the scenario's topology.
    """
    with _collected_at_end():
        return _run(scenario.of(seed), seed, trace_to, prepare, topology)


@contextmanager
def _collected_at_end() -> Iterator[None]:
    """Collect garbage once, when nothing refers to the world any more.

    An earlier collection would visit the whole world and free little. A world without a collection of its own
    (`engine`) is in the youngest generation, so the other objects of the process need no visit.
    """
    was_enabled, collected = gc.isenabled(), _old_collections()
    gc.disable()
    try:
        yield
    finally:
        gc.collect(0 if _old_collections() == collected else 2)
        if was_enabled:
            gc.enable()


def _old_collections() -> int:
    """The number of collections so far that have moved objects to the oldest generation."""
    return sum(one["collections"] for one in gc.get_stats()[1:])


def _run(
    scenario: Scenario,
    seed: int,
    trace_to: TextIO | None,
    prepare: Callable[[ClusterWorld], None] | None,
    topology: Topology | None,
) -> Run:
    history, began_at = History(), perf_counter()
    violations: list[Violation] = []
    story = scenario.story if isinstance(scenario, ClusterScenario) else ""
    with (
        _open(scenario, seed, topology, trace_to) as sim,
        _ErrorLog() as errors,
        quick_secrets(),
        tapped() if story else nullcontext(TappedWire()) as wire,
    ):
        world = _world(sim, scenario, history)
        if isinstance(world, ClusterWorld):
            if story:
                begin_story(world, wire, {**STORIES, **SESSION_STORIES, **PLANNED_STORIES}[story])
            if prepare is not None:
                prepare(world)
        try:
            sim.run(play(world) if isinstance(world, ClusterWorld) else world.play())
        except EquipoiseError as error:
            violations.append(Violation(CLEAN, "; ".join([str(error), *getattr(error, "__notes__", ())])))
        violations += [Violation(CLEAN, text) for text in errors.texts]
        for name in scenario.expectation.properties:
            violations += CHECKERS[name](history)
        sim.note(_summary(history))
        return Run(
            case=scenario.name,
            seed=seed,
            violations=tuple(violations),
            trace_hash=sim.trace.digest(),
            faults=_fired(sim, world),
            messages=history.messages,
            deliveries=history.deliveries,
            seconds=sim.now,
            wall_s=perf_counter() - began_at,
            lines=tuple(sim.trace.lines(LINES_KEPT)) if violations else (),
        )


AnyWorld: TypeAlias = HubWorld | ClusterWorld | DurableWorld | LogsWorld


def _world(sim: Simulation, scenario: Scenario, history: History) -> AnyWorld:
    if isinstance(scenario, LogScenario):
        return LogsWorld(sim, scenario, history)
    if isinstance(scenario, DurableScenario):
        return DurableWorld(sim, scenario, history)
    if isinstance(scenario, ClusterScenario):
        return ClusterWorld(sim, scenario, history)
    return HubWorld(sim, scenario, history)


def _fired(sim: Simulation, world: AnyWorld) -> Counter[str]:
    """Number of faults of each kind, network faults included."""
    fired = Counter(world.fired())
    if sim.faults["loss"]:
        fired["packet loss"] = sim.faults["loss"]
    return fired


class _ErrorLog(logging.Handler):
    """Collects log records with a traceback: errors that were caught and only logged."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.texts: list[str] = []
        self._logger = logging.getLogger("equipoise")

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info is not None:
            self.texts.append(f"logged: {record.getMessage()}: {record.exc_info[1]!r}")

    def __enter__(self) -> _ErrorLog:
        self._level, self._propagate = self._logger.level, self._logger.propagate
        # A hub logs a warning for each client that it disconnects, which is expected here.
        self._logger.setLevel(logging.ERROR)
        self._logger.propagate = False
        self._logger.addHandler(self)
        return self

    def __exit__(self, *exc: object) -> None:
        self._logger.removeHandler(self)
        self._logger.setLevel(self._level)
        self._logger.propagate = self._propagate


def _open(scenario: Scenario, seed: int, topology: Topology | None, trace_to: TextIO | None) -> Simulation:
    """A simulation whose network is drawn from the seed within the scenario's ranges."""
    draw = Random(f"topology {seed}")

    def between(limits: tuple[float, float]) -> float:
        return max(0.0, limits[0] + draw.random() * (limits[1] - limits[0]))

    wanted = scenario.topology
    spec = LinkSpec(
        latency_s=between(wanted.latency_s),
        jitter_s=between(wanted.jitter_s),
        loss=between(wanted.loss),
        window_bytes=wanted.window_bytes,
    )
    return Simulation(
        seed=seed,
        topology=topology or _topology(scenario, seed, spec),
        split=between(wanted.split),
        trace_to=trace_to,
        time_s_max=10_000.0,
    )


def _topology(scenario: Scenario, seed: int, spec: LinkSpec) -> Topology:
    wanted = scenario.topology
    if isinstance(scenario, ClusterScenario) and wanted.shape in ("uneven", "scattered"):
        return Uneven(seed, scenario.hubs, is_scattered=wanted.shape == "scattered")
    if wanted.shape == "long-way":
        return LongWay(seed)
    if wanted.shape == "star":
        return Star(default=spec)
    if wanted.shape == "sites":
        round_trips = {(one, other): seconds for one, other, seconds in wanted.round_trips_s}
        return Sites(round_trips, within=spec, between=spec)
    if wanted.shape == "cities":
        return Cities(within=spec, between=spec)
    return Lan(spec)


_AT = attrgetter("at")


def _summary(history: History) -> str:
    """A few numbers per subscription for the trace, so that the hash depends on the received events."""
    parts = []
    for track in history.tracks:
        # Not `sum`, whose rounding changed in Python 3.12.
        moments = fsum(map(_AT, track.events))
        parts.append(f"{track.name} {len(track.events)} {moments!r}")
    return "; ".join(parts)
