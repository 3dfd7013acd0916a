"""Run the game on a fleet under a controller, and write down what happened.

The world of Dynamoth's experiments 2 and 3: servers with a bandwidth each, players whose number follows a schedule, and
somebody who changes the plan. Who that is, is the experiment's choice; see `controlling`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from equipoise.lab.experiments.crowd import Crowd
from equipoise.lab.experiments.experiment import Progress, silent
from equipoise.lab.experiments.fleet import Fleet, Machine
from equipoise.lab.experiments.meter import Meter, Second
from equipoise.lab.scenarios.game import Game
from equipoise.lab.scenarios.schedule import Schedule
from equipoise.lab.simulation import Simulation
from equipoise.lab.simulation.costs import measured_cpu
from equipoise.lab.simulation.legs import Legs

__all__ = ["RESPONSE_S_MAX", "Controls", "Match", "Outcome", "play", "server_names"]

Floats = NDArray[np.float64]

# What the paper's players accept: a mean response below this (V-D).
RESPONSE_S_MAX = 0.150
# And not more than so many of them may hear nothing of their tile, which a mean of responses does not show.
DEAF_SHARE_MAX = 0.02
# Means are taken over so many seconds.
SMOOTHING_S = 5
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
    # The run ends when it has been lost for this long, see `is_lost`; None: never.
    give_up_s: int | None = None
    seed: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a run came to."""

    match: Match
    meter: Meter
    plans: int
    # Topics put elsewhere by an entry; those that moved with a share of the ring are not counted.
    moves: int

    @property
    def responses_s(self) -> Floats:
        """The mean response over the last few seconds, at the end of each second."""
        return self.meter.means(SMOOTHING_S)

    @property
    def is_lost(self) -> NDArray[np.bool_]:
        """Of each second, whether players are served badly: too slowly on average, or not at all."""
        deaf = np.array([second.deaf / max(1, second.players) for second in self.meter.seconds])
        with np.errstate(invalid="ignore"):
            return (self.responses_s > RESPONSE_S_MAX) | (deaf > DEAF_SHARE_MAX)

    def lost_from(self, lasting_s: int) -> int | None:
        """The first second from which on players are served badly for so long without a break; None: never."""
        run = 0
        for second, is_lost in enumerate(self.is_lost.tolist()):
            run = run + 1 if is_lost else 0
            if run >= lasting_s:
                return second + 1 - lasting_s
        return None


def play(match: Match, controls: MakesControls, progress: Progress = silent) -> Outcome:
    """Run it in a simulation of its own."""
    topology = Legs(seed=match.seed)
    with Simulation(seed=match.seed, topology=topology, steps_max=10**11) as sim:
        return sim.run(_play(sim, match, controls, progress))


def server_names(count: int) -> list[str]:
    """Which the ring goes by."""
    return [f"hub-{number}" for number in range(1, count + 1)]


async def _play(sim: Simulation, match: Match, make: MakesControls, progress: Progress) -> Outcome:
    meter = Meter()
    names = server_names(match.servers)
    machine = Machine(out_bytes_per_s=match.out_bytes_per_s, cpu=measured_cpu())
    fleet = Fleet(sim, machine, names)
    await fleet.begin(*names[: match.servers_at_start])
    crowd = Crowd(sim, match.game, meter, lambda: fleet.endpoints)
    controls = make(fleet, meter)
    controlling = sim.loop.create_task(controls.run(), name="controls")
    delivered = 0
    meter.began_at = sim.now

    def each_second(second: float) -> bool:
        nonlocal delivered
        if controlling.done():
            # It only ends by failing: let everybody know.
            controlling.result()
        meter.seconds.append(
            Second(
                at_s=second,
                players=len(crowd.players),
                servers=len(fleet.members),
                deaf=crowd.deaf,
                deliveries=meter.deliveries - delivered,
                load_ratios=controls.load_ratios,
                lost=meter.lost,
                plan_version=fleet.plan.version,
            )
        )
        delivered = meter.deliveries
        progress(f"{second:.0f} s, {len(crowd.players)} players", second / match.schedule.duration_s)
        return match.give_up_s is not None and _is_given_up(outcome(), match.give_up_s)

    def outcome() -> Outcome:
        return Outcome(match=match, meter=meter, plans=fleet.plan.version, moves=fleet.moves)

    await crowd.follow(match.schedule, each_second)
    crowd.fall_silent()
    await fleet.until(lambda: not crowd.unanswered, DRAIN_S)
    meter.unanswered = crowd.unanswered
    controlling.cancel()
    await asyncio.wait([controlling])
    return outcome()


def _is_given_up(outcome: Outcome, after_s: int) -> bool:
    """Looked at every few seconds: it takes a while."""
    count = len(outcome.meter.seconds)
    return count % SMOOTHING_S == 0 and count >= after_s and bool(outcome.is_lost[-after_s:].all())
