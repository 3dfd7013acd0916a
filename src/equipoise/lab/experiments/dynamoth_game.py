"""Dynamoth, experiments 2 and 3: the game on up to eight servers (Gascon-Samson et al., ICDCS 2015, V-D and V-E).

2: ever more players; how many are served in time by the planner, and how many by consistent hashing.
3: players join, most leave, some return; servers must follow, and no message may be lost.

Parameters that the paper does not print are chosen so that eight servers are full at a little more than the thousand
players it reached: the bandwidth of a server is the 10,000 kB/s of the authors' released configuration, and the size of
an update follows from it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from equipoise.lab.experiments.dynamoth_bounds import best_gain_over_ring, best_gain_over_shedding
from equipoise.lab.experiments.dynamoth_findings import (
    elasticity_claims,
    elasticity_figure,
    load_figure,
    scalability_claims,
    scalability_figure,
)
from equipoise.lab.experiments.experiment import Experiment, Progress, part_of
from equipoise.lab.experiments.result import Claim, Figure, Size
from equipoise.lab.experiments.run_game import Match, Outcome, play, server_names
from equipoise.lab.experiments.shedding import Shedding
from equipoise.lab.experiments.views import ViewMaking, view_making
from equipoise.lab.scenarios.game import Game, Schedule
from equipoise.lab.simulation.legs import Legs
from equipoise.plan import PlannerSettings, Policy
from equipoise.plan.planner import Planner
from equipoise.plan.policies import ConsistentHashing

__all__ = [
    "EXPERIMENT_2",
    "EXPERIMENT_3",
    "FULL",
    "GIVE_UP_S",
    "QUICK",
    "RING",
    "SERVERS",
    "GameSize",
    "GameWorld",
    "Games",
    "System",
    "game_notes",
    "game_parameters",
    "play_all",
]

SERVERS = 8
# A run ends after bad service for this long, because the rest adds no information.
GIVE_UP_S = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class GameSize:
    """Size of a run. Load grows with the square of the players, so a quarter of the bandwidth serves half of them."""

    out_bytes_per_s: float
    game: Game
    # Number of players relative to the paper.
    scale: float
    # Speed at which players join and leave relative to the paper, except while servers are released.
    pace: float
    # Initial players of experiment 2, in the paper's numbers.
    players_at_start: float
    # Spark makes one view in this many.
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
# Half the players per tile, so the noise of their moves is twice as large; a much smaller world shows nothing. Updates
# at half the rate and twice the size are the same load for a server and half the work to simulate.
QUICK = GameSize(
    out_bytes_per_s=2.5e6,
    game=Game(payload_bytes=1_800, updates_per_s=1.5),
    scale=0.5,
    pace=2.0,
    players_at_start=240,
    spark_every=100,
)


# Between these numbers of players consistent hashing requests servers, one every 32 s or so. Players join slowly there,
# so that it has all eight servers before it fails.
SLOW_FROM, SLOW_TO, SLOW_PER_S = 300, 690, 0.8


def schedule_2(size: GameSize) -> Schedule:
    """To 1,200 players, two a second and slower in between; fewer in a smaller world, so that load grows as slowly."""
    fast_per_s = 2 * size.pace
    legs = (
        (size.players_at_start, 1.0),
        (SLOW_FROM, fast_per_s),
        (SLOW_TO, SLOW_PER_S),
        (1_200, fast_per_s),
    )
    points, at_s, before = [], 0.0, size.players_at_start
    for players, per_s in legs:
        at_s += (players - before) / per_s
        points.append((at_s, size.players(players)))
        before = players
    return Schedule(*points)


def schedule_3(size: GameSize) -> Schedule:
    """To 800 players, down to 200, up to almost 600, with pauses so that servers can follow."""
    fast = size.pace
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
        points.append((at_s, size.players(players)))
    return Schedule(*points)


@dataclass(frozen=True, slots=True)
class System:
    """One of the compared systems."""

    label: str
    policy: Callable[[], Policy]


PLANNER = System("equipoise", lambda: Planner(PlannerSettings(servers_max=SERVERS)))
SHEDDING = System("consistent hashing, as released", lambda: Shedding(SERVERS))
RING = System("consistent hashing, a ring", lambda: ConsistentHashing(PlannerSettings(servers_max=SERVERS)))


@dataclass(frozen=True, slots=True, kw_only=True)
class GameWorld:
    """A schedule of players, and the compared systems, which run one after the other."""

    size: GameSize
    schedule: Schedule
    systems: tuple[System, ...] = (PLANNER,)
    servers_at_start: int = 1
    give_up_s: int | None = None
    views: Callable[[int], AbstractContextManager[ViewMaking]] = view_making


@dataclass(frozen=True, slots=True)
class Games:
    """The outcomes of all systems."""

    world: GameWorld
    match: Match
    outcomes: tuple[Outcome, ...]
    views: ViewMaking


def play_all(world: GameWorld, seed: int, progress: Progress) -> Games:
    size = world.size
    match = Match(
        schedule=world.schedule,
        game=replace(size.game, world=f"world-{seed}"),
        servers=SERVERS,
        servers_at_start=world.servers_at_start,
        out_bytes_per_s=size.out_bytes_per_s,
        give_up_s=world.give_up_s,
        seed=seed,
    )
    parts = np.linspace(0, 1, len(world.systems) + 1).tolist()
    with world.views(size.spark_every) as views:
        outcomes = tuple(
            play(match, system.policy(), views(), part_of(progress, *part, f"{system.label}, "))
            for system, part in zip(world.systems, pairwise(parts), strict=True)
        )
    return Games(world, match, outcomes, views)


def _claims_2(seen: Games) -> tuple[Claim, ...]:
    game, servers = seen.match.game, server_names(SERVERS)
    bounds = best_gain_over_shedding(game, servers), best_gain_over_ring(game, servers)
    return scalability_claims(seen.world.size.players, *seen.outcomes, bounds=bounds)


def _figure_2(seen: Games) -> Figure:
    return scalability_figure([system.label for system in seen.world.systems], seen.outcomes)


def game_notes(seen: Games) -> tuple[str, ...]:
    notes = [
        f"{system.label}: {outcome.plans} plans, {outcome.moves} topics placed by entry, "
        f"{outcome.meter.deliveries:,} messages delivered, {outcome.meter.cuts} connections cut."
        for system, outcome in zip(seen.world.systems, seen.outcomes, strict=True)
    ]
    return (*notes, *COMMON_NOTES)


def game_parameters(seen: Games) -> tuple[tuple[str, str], ...]:
    match, game, legs = seen.match, seen.match.game, Legs()
    return (
        (
            "servers",
            f"{match.servers}, {match.servers_at_start} at the beginning, {match.start_s:g} s to start one",
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
    worlds={
        Size.FULL: GameWorld(
            size=FULL,
            schedule=schedule_2(FULL),
            systems=(PLANNER, SHEDDING, RING),
            give_up_s=GIVE_UP_S,
        ),
        Size.QUICK: GameWorld(
            size=QUICK, schedule=schedule_2(QUICK), systems=(PLANNER, SHEDDING), give_up_s=GIVE_UP_S
        ),
    },
    world=play_all,
    claims=_claims_2,
    figures=(_figure_2, lambda seen: load_figure("dynamoth-2-load", seen.outcomes[0])),
    parameters=game_parameters,
    notes=game_notes,
    views=lambda seen: seen.views.note,
    takes=("7 minutes", "45 minutes"),
)
# Following the players does not need eight servers: half of that load is enough.
QUICK_3 = replace(QUICK, scale=0.35)
EXPERIMENT_3 = Experiment(
    name="dynamoth-3",
    source="Dynamoth, V-E",
    summary="Elasticity: 800 players come, 600 go, almost 400 come back; servers follow, and nothing is lost.",
    worlds={
        Size.FULL: GameWorld(size=FULL, schedule=schedule_3(FULL)),
        Size.QUICK: GameWorld(size=QUICK_3, schedule=schedule_3(QUICK_3)),
    },
    world=play_all,
    claims=lambda seen: elasticity_claims(seen.world.size.players, seen.outcomes[0]),
    figures=(
        lambda seen: elasticity_figure(seen.outcomes[0]),
        lambda seen: load_figure("dynamoth-3-load", seen.outcomes[0]),
    ),
    parameters=game_parameters,
    notes=game_notes,
    views=lambda seen: seen.views.note,
    takes=("under two minutes", "20 minutes"),
)
