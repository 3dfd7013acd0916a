"""Run one seed of one scenario and judge it.

A run has two phases. First the workload meets the faults: nothing may break its promises. Then everything is
healed, and messages of each publisher on each of its topics must soon reach every subscriber.

The same scenario and seed give the same run, event by event, on every supported Python: its trace hash tells.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from math import fsum
from random import Random
from typing import TextIO

from equipoise.errors import EquipoiseError
from equipoise.lab.scenarios import Scenario
from equipoise.lab.simulation.checkers import CHECKERS, Violation
from equipoise.lab.simulation.faults import HUB, Mischief
from equipoise.lab.simulation.link import LinkSpec
from equipoise.lab.simulation.memory_use import measure_forever
from equipoise.lab.simulation.simulated_hub import PORT, HubHost, quick_secrets
from equipoise.lab.simulation.topology import Cities, Lan, Sites, Star, Topology
from equipoise.lab.simulation.world import Simulation
from equipoise.lab.workload import Driven, History, Place, Stage, cast_client, hurried
from equipoise.lab.workload.history import Marker

__all__ = ["Run", "run_seed"]

# Everybody connects within this, or the run goes on without waiting for them.
OPENING_S = 5.0
# How often the end of a run is looked for.
LOOK_S = 0.05
LINES_KEPT = 40
# The property broken when something raised that nobody handles.
CLEAN = "no unhandled errors"


@dataclass(frozen=True, slots=True)
class Run:
    """What became of one seed."""

    case: str
    seed: int
    violations: tuple[Violation, ...]
    trace_hash: str
    faults: Counter[str] = field(default_factory=Counter)
    messages: int = 0
    deliveries: int = 0
    # Virtual.
    seconds: float = 0.0
    # The last lines of the trace, kept where something is wrong.
    lines: tuple[str, ...] = ()

    @property
    def is_green(self) -> bool:
        return not self.violations


def run_seed(scenario: Scenario, seed: int, *, trace_to: TextIO | None = None) -> Run:
    """Run and judge. Never raises for what the simulated programs do."""
    history = History()
    violations: list[Violation] = []
    with _open(scenario, seed, trace_to) as sim, _ErrorLog() as errors, quick_secrets():
        world = _World(sim, scenario, history)
        try:
            sim.run(world.play())
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
            faults=world.fired(),
            messages=history.messages,
            deliveries=history.deliveries,
            seconds=sim.now,
            lines=tuple(sim.trace.lines(LINES_KEPT)) if violations else (),
        )


class _World:
    """The parts of one run and the order in which things happen to them."""

    def __init__(self, sim: Simulation, scenario: Scenario, history: History) -> None:
        self._sim = sim
        self._scenario = scenario
        self._history = history
        self._hub = HubHost(sim.host(HUB, place=scenario.topology.hub_place or None), scenario, history)
        self._mischief: Mischief | None = None

    def fired(self) -> Counter[str]:
        """How often each kind of fault happened, the network's own included."""
        fired: Counter[str] = Counter()
        if self._mischief is not None:
            fired.update(self._mischief.fired)
        if self._sim.faults["loss"]:
            fired["packet loss"] = self._sim.faults["loss"]
        return fired

    async def play(self) -> None:
        stage, loop = Stage(), self._sim.loop
        self._hub.start()
        clients = [self._seat(client_stage) for client_stage in self._cast(stage)]
        measuring = loop.create_task(measure_forever(self._hub, clients, self._history))
        mischief = self._mischief = Mischief(self._sim, self._scenario, self._hub, clients)
        await self._until(self._is_everybody_live, OPENING_S)
        mischief.begin()
        stage.begin.set()
        await asyncio.sleep(self._scenario.duration_s)
        mischief.heal()
        self._history.healed_at = self._sim.now
        self._sim.note("healed")
        stage.conclude.set()
        await self._until(lambda: self._is_concluded(clients), self._scenario.expectation.progress_s)
        measuring.cancel()
        self._note_unfinished(clients)

    def _cast(self, stage: Stage) -> list[Driven]:
        settings = hurried(**self._scenario.client_settings)
        cast = []
        for client in self._scenario.workload.each():
            host = self._sim.host(client.name, place=client.place or None)
            cast.append(cast_client(client, Place(HUB, PORT, settings, host.random), stage, self._history))
        return cast

    def _seat(self, client: Driven) -> Driven:
        self._sim.host(client.name).spawn(client.run(), name=client.name)
        return client

    async def _until(self, is_so: Callable[[], bool], patience_s: float) -> None:
        """Wait for a condition, and no longer than this. Looking costs no time worth saving here."""
        for _ in range(int(patience_s / LOOK_S)):
            if is_so():
                return
            await asyncio.sleep(LOOK_S)

    def _is_everybody_live(self) -> bool:
        return all(track.is_live for track in self._history.tracks)

    def _is_concluded(self, clients: list[Driven]) -> bool:
        if any(client.unfinished for client in clients):
            return False
        return all(
            track.has_reached(stream, sequence or 0, self._history.healed_at)
            for stream, sequence in self._history.markers
            for track in self._history.tracks
            if track.wants(stream[1])
        )

    def _note_unfinished(self, clients: list[Driven]) -> None:
        history = self._history
        marked = {marker.stream for marker in history.markers}
        for client in clients:
            if client.unfinished:
                history.unfinished.append(f"{client.name} is still waiting to publish")
                streams = [stream for stream in history.sent if stream[0] == client.name]
                history.markers += [Marker(stream, None) for stream in streams if stream not in marked]


class _ErrorLog(logging.Handler):
    """Catches what is logged with a traceback: a mistake that somebody has covered up."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.texts: list[str] = []
        self._logger = logging.getLogger("equipoise")

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info is not None:
            self.texts.append(f"logged: {record.getMessage()}: {record.exc_info[1]!r}")

    def __enter__(self) -> _ErrorLog:
        self._level, self._propagate = self._logger.level, self._logger.propagate
        # A hub warns about each client it cuts: here that is no news.
        self._logger.setLevel(logging.ERROR)
        self._logger.propagate = False
        self._logger.addHandler(self)
        return self

    def __exit__(self, *exc: object) -> None:
        self._logger.removeHandler(self)
        self._logger.setLevel(self._level)
        self._logger.propagate = self._propagate


def _open(scenario: Scenario, seed: int, trace_to: TextIO | None) -> Simulation:
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
        topology=_topology(scenario, spec),
        split=between(wanted.split),
        trace_to=trace_to,
        time_s_max=10_000.0,
    )


def _topology(scenario: Scenario, spec: LinkSpec) -> Topology:
    wanted = scenario.topology
    if wanted.shape == "star":
        return Star(default=spec)
    if wanted.shape == "sites":
        round_trips = {(one, other): seconds for one, other, seconds in wanted.round_trips_s}
        return Sites(round_trips, within=spec, between=spec)
    if wanted.shape == "cities":
        return Cities(within=spec, between=spec)
    return Lan(spec)


def _summary(history: History) -> str:
    """What every subscription saw, in a few numbers: goes into the trace, so that its hash tells of it."""
    parts = []
    for track in history.tracks:
        # Not `sum`, which rounds otherwise from Python 3.12 on.
        moments = fsum(event.at for event in track.events)
        parts.append(f"{track.name} {len(track.events)} {moments!r}")
    return "; ".join(parts)
