"""Run the game on a fleet under a controller, and write down what happened.

The world of Dynamoth's experiments 2 and 3: servers with a bandwidth each, players whose number follows a schedule, and
somebody who changes the plan. Who that is, is the experiment's choice; see `controlling`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any, Protocol

from equipoise.experiments.crowd import Crowd, Schedule
from equipoise.experiments.experiment import Progress, silent
from equipoise.experiments.fleet import Fleet, Machine
from equipoise.experiments.meter import Meter, Second
from equipoise.scenarios.game import Game
from equipoise.simulation import Simulation
from equipoise.simulation.costs import measured_cpu
from equipoise.simulation.legs import Legs

__all__ = ["Controls", "Match", "Outcome", "play"]

# After the last second of the schedule: for what is under way to arrive.
DRAIN_S = 10.0


class Controls(Protocol):
    """Whoever changes the plan. Made for one fleet; `run` goes on until cancelled."""

    def run(self) -> Coroutine[Any, Any, None]: ...

    @property
    def load_ratios(self) -> tuple[float, ...]:
        """The latest known, of each server in use."""


class MakesControls(Protocol):
    def __call__(self, fleet: Fleet, meter: Meter) -> Controls: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """One run of the game."""

    schedule: Schedule
    game: Game = field(default_factory=Game)
    servers: int = 8
    servers_at_start: int = 1
    # Of each server.
    out_bytes_per_s: float = 10e6
    # Over all: what goes wrong when players wait for longer than this.
    response_s_max: float = 0.150
    seed: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a run came to."""

    match: Match
    meter: Meter
    plans: int
    moves: int
    # Virtual.
    seconds: float


def play(match: Match, controls: MakesControls, progress: Progress = silent) -> Outcome:
    """Run it in a simulation of its own."""
    topology = Legs(seed=match.seed)
    with Simulation(seed=match.seed, topology=topology, steps_max=10**11) as sim:
        return sim.run(_play(sim, match, controls, progress))


async def _play(sim: Simulation, match: Match, make: MakesControls, progress: Progress) -> Outcome:
    meter = Meter()
    names = [f"hub-{number}" for number in range(1, match.servers + 1)]
    machine = Machine(out_bytes_per_s=match.out_bytes_per_s, cpu=measured_cpu())
    fleet = Fleet(sim, machine, names)
    await fleet.begin(*names[: match.servers_at_start])
    crowd = Crowd(sim, match.game, meter, lambda: fleet.members)
    controls = make(fleet, meter)
    controlling = sim.loop.create_task(controls.run(), name="controls")
    delivered = 0
    meter.began_at = sim.now

    def each_second(second: float) -> None:
        nonlocal delivered
        meter.seconds.append(
            Second(
                at_s=second,
                players=len(crowd.players),
                servers=len(fleet.members),
                deliveries=meter.deliveries - delivered,
                load_ratios=controls.load_ratios,
                plan_version=fleet.plan.version,
            )
        )
        delivered = meter.deliveries
        progress(f"{second:.0f} s, {len(crowd.players)} players", second / match.schedule.duration_s)

    await crowd.follow(match.schedule, each_second)
    crowd.fall_silent()
    await fleet.until(lambda: not crowd.unanswered, DRAIN_S)
    meter.unanswered = crowd.unanswered
    controlling.cancel()
    await asyncio.wait([controlling])
    return Outcome(match=match, meter=meter, plans=fleet.plan.version, moves=fleet.moves, seconds=sim.now)
