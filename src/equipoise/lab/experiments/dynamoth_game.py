"""Dynamoth, experiments 2 and 3: the game on up to eight servers (Gascon-Samson et al., ICDCS 2015, V-D and V-E).

2: ever more players; how many are served in time by the planner, and how many by consistent hashing.
3: players come, most go, some come back; servers have to follow, and nothing may be lost.

What the paper does not print is chosen so that eight servers together are full at a little more than the thousand
players it reached: the bandwidth of a server is the 10,000 kB/s of the authors' released configuration, and an update
is as large as makes it so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from equipoise.lab.experiments.bounds import best_gain_over_ring
from equipoise.lab.experiments.control_loop import Controlling, Timing
from equipoise.lab.experiments.dynamoth_claims import elasticity_claims, scalability_claims
from equipoise.lab.experiments.dynamoth_figures import elasticity_figure, load_figure, scalability_figure
from equipoise.lab.experiments.experiment import Experiment, Findings, Progress
from equipoise.lab.experiments.fleet import Fleet
from equipoise.lab.experiments.meter import Meter
from equipoise.lab.experiments.result import Size
from equipoise.lab.experiments.run_game import Match, Outcome, play, server_names
from equipoise.lab.experiments.shedding import Shedding
from equipoise.lab.experiments.spark_session import ViewMaking, view_making
from equipoise.lab.scenarios.game import Game
from equipoise.lab.scenarios.schedule import Schedule
from equipoise.lab.simulation.legs import Legs
from equipoise.plan import PlannerSettings, Policy
from equipoise.plan.planner import Planner
from equipoise.plan.policies import ConsistentHashing

__all__ = ["EXPERIMENT_2", "EXPERIMENT_3"]

SERVERS = 8
# A run in which players have been served badly for so long tells nothing new.
GIVE_UP_S = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class GameSize:
    """How large a run is. Load grows with the square of the players, so a quarter of the bandwidth is half of them."""

    out_bytes_per_s: float
    game: Game
    # In terms of the paper's numbers of players.
    scale: float
    # How many times as fast as in the paper players come and go, but for the time in which servers are released.
    pace: float
    # Experiment 2 begins with so many of the paper's players.
    players_at_start: float
    # One view in so many is made by Spark.
    spark_every: int

    def players(self, count: float) -> float:
        return round(count * self.scale)


FULL = GameSize(
    out_bytes_per_s=10e6,
    game=Game(payload_bytes=900),
    scale=1.0,
    pace=1.0,
    players_at_start=120,
    spark_every=60,
)
# Half the players per tile, and their coming and going is noise twice as large: much smaller tells nothing. Updates
# half as often and twice as large are the same load to a server, and half the work to simulate.
QUICK = GameSize(
    out_bytes_per_s=2.5e6,
    game=Game(payload_bytes=1_800, updates_per_s=1.5),
    scale=0.5,
    pace=2.0,
    players_at_start=240,
    spark_every=100,
)
WORLDS_2 = {Size.FULL: FULL, Size.QUICK: QUICK}
# To follow the players it needs no eight servers: as many as half of that load takes are enough.
WORLDS_3 = {Size.FULL: FULL, Size.QUICK: replace(QUICK, scale=0.35)}


@dataclass(frozen=True, slots=True)
class System:
    """What is compared."""

    label: str
    policy: Policy


def _planner() -> System:
    return System("equipoise", Planner(PlannerSettings(servers_max=SERVERS)))


def _shedding() -> System:
    return System("consistent hashing, as released", Shedding(SERVERS))


def _ring() -> System:
    return System("consistent hashing, a ring", ConsistentHashing(PlannerSettings(servers_max=SERVERS)))


def _play(
    match: Match,
    system: System,
    views: ViewMaking,
    progress: Progress,
    part: tuple[float, float] = (0.0, 1.0),
) -> Outcome:
    begin, end = part

    def tell(label: str, done: float) -> None:
        progress(f"{system.label}, {label}", begin + (end - begin) * done)

    def make(fleet: Fleet, meter: Meter) -> Controlling:
        return Controlling(fleet, meter, system.policy, views(), Timing())

    return play(match, make, tell)


# Experiment 2.


def _run_2(size: Size, seed: int, progress: Progress) -> Findings:
    world = WORLDS_2[size]
    match = Match(
        schedule=schedule_2(world),
        game=replace(world.game, world=f"world-{seed}"),
        servers=SERVERS,
        out_bytes_per_s=world.out_bytes_per_s,
        give_up_s=GIVE_UP_S,
        seed=seed,
    )
    systems = [_planner(), _shedding(), *([_ring()] if size is Size.FULL else [])]
    parts = np.linspace(0, 1, len(systems) + 1).tolist()
    with view_making(world.spark_every) as views:
        outcomes = [
            _play(match, system, views, progress, part)
            for system, part in zip(systems, pairwise(parts), strict=True)
        ]
    labels = [system.label for system in systems]
    return Findings(
        claims=scalability_claims(
            world.players, *outcomes, best_gain=best_gain_over_ring(match.game, server_names(SERVERS))
        ),
        figures=(scalability_figure(labels, outcomes), load_figure("dynamoth-2-load", outcomes[0])),
        parameters=_parameters(match),
        notes=_notes(labels, outcomes, views),
    )


def _notes(labels: Sequence[str], outcomes: Sequence[Outcome], views: ViewMaking) -> tuple[str, ...]:
    notes = [
        f"{label}: {outcome.plans} plans, {outcome.moves} topics placed by entry, "
        f"{outcome.meter.deliveries:,} messages delivered, {outcome.meter.cuts} connections cut."
        for label, outcome in zip(labels, outcomes, strict=True)
    ]
    return (*notes, views.note, *COMMON_NOTES)


def schedule_2(world: GameSize) -> Schedule:
    """From 120 to 1,200, two a second; fewer in a smaller world, so that load grows as slowly against a server's."""
    low, high = world.players(world.players_at_start), world.players(1_200)
    return Schedule((0, low), ((high - low) / (2 * world.scale * world.pace), high))


# Experiment 3.


def _run_3(size: Size, seed: int, progress: Progress) -> Findings:
    world = WORLDS_3[size]
    match = Match(
        schedule=schedule_3(world),
        game=replace(world.game, world=f"world-{seed}"),
        servers=SERVERS,
        out_bytes_per_s=world.out_bytes_per_s,
        seed=seed,
    )
    with view_making(world.spark_every) as views:
        outcome = _play(match, _planner(), views, progress)
    return Findings(
        claims=elasticity_claims(world.players, outcome),
        figures=(elasticity_figure(outcome), load_figure("dynamoth-3-load", outcome)),
        parameters=_parameters(match),
        notes=_notes(["equipoise"], [outcome], views),
    )


def schedule_3(world: GameSize) -> Schedule:
    """To 800, down to 200, up to almost 600; a while at each so that servers can follow."""
    fast = world.pace
    legs = (
        (120, 0),
        (800, 340 / fast),
        (800, 60 / fast),
        (200, 120 / fast),
        (200, 240),
        (590, 195 / fast),
        (590, 60 / fast),
    )
    points, at_s = [], 0.0
    for players, seconds in legs:
        at_s += seconds
        points.append((at_s, world.players(players)))
    return Schedule(*points)


def _parameters(match: Match) -> tuple[tuple[str, str], ...]:
    game, legs, timing = match.game, Legs(), Timing()
    return (
        (
            "servers",
            f"{match.servers}, {match.servers_at_start} at the beginning, {timing.start_s:g} s to start one",
        ),
        ("outgoing bandwidth of each", f"{match.out_bytes_per_s / 1e3:,.0f} kB/s"),
        ("map", f"{game.tiles_per_side} × {game.tiles_per_side} tiles of {game.tile_length:g}"),
        (
            "players",
            f"random waypoint, speed {game.speed_per_s:g}/s, rest {game.rest_s[0]:g}–{game.rest_s[1]:g} s",
        ),
        ("updates", f"{game.updates_per_s:g}/s of each player, {game.payload_bytes} B"),
        ("client legs", f"log-normal, median {1e3 * legs.median_s:g} ms, σ {legs.sigma:g}, drawn per client"),
        ("duration", f"{match.schedule.duration_s:,.0f} s of virtual time, a look at the hubs every second"),
    )


COMMON_NOTES = (
    "A player is served badly while the mean response over five seconds is above the limit, or more than 2 % of the "
    "players have heard nothing of their tile for a second; a mean alone does not count those who wait.",
    "An update that had not come back when its player left the tile counts with the time it had taken by then.",
)

EXPERIMENT_2 = Experiment(
    name="dynamoth-2",
    source="Dynamoth, V-D",
    summary="Scalability: players join until eight servers are full; the planner against consistent hashing.",
    run=_run_2,
    takes=("under two minutes", "20 minutes"),
)
EXPERIMENT_3 = Experiment(
    name="dynamoth-3",
    source="Dynamoth, V-E",
    summary="Elasticity: 800 players come, 600 go, almost 400 come back; servers follow, and nothing is lost.",
    run=_run_3,
    takes=("under two minutes", "20 minutes"),
)
