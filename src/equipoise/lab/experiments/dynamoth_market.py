"""Dynamoth's game on a map with a market: one tile that makes most of the load, which no placement can divide.

The paper's map spreads players over 64 tiles, so that replication is hardly needed. Here every second waypoint is on
the market: a quarter of the players is on one tile of 64, which makes four fifths of all messages. Consistent hashing
always has that tile on one server. The planner replicates it.

Both systems have all eight servers from the beginning, and hashing is the ring that spreads topics evenly: neither the
start of servers nor the authors' load shedding affects the result.
"""

from __future__ import annotations

from dataclasses import replace
from math import sqrt

from equipoise.lab.experiments.dynamoth_bounds import best_gain_over_ring, tile_loads
from equipoise.lab.experiments.dynamoth_findings import (
    load_figure,
    scalability_figure,
    supported,
    until_full_claims,
)
from equipoise.lab.experiments.dynamoth_game import (
    FULL,
    GIVE_UP_S,
    QUICK,
    RING,
    SERVERS,
    Games,
    GameSize,
    GameWorld,
    System,
    game_notes,
    game_parameters,
    play_all,
)
from equipoise.lab.experiments.experiment import Experiment
from equipoise.lab.experiments.result import Claim, Figure, Size
from equipoise.lab.experiments.run_game import Outcome, server_names
from equipoise.lab.scenarios.game import Schedule
from equipoise.plan import PlannerSettings
from equipoise.plan.planner import Planner

__all__ = ["MARKET"]

# Required gain of replication over hashing on this map.
RATIO_MIN = 2.0
# Half of all waypoints.
MARKET_CHANCE = 0.5
# In the paper's numbers: from a market that one server can carry to more than eight servers can.
PLAYERS_FROM, PLAYERS_TO = 180, 700
# Slow, so that the load of the market grows by half in the 30 s between two changes of a topic's replication.
PLAYERS_PER_S = 2.0
# Updates at half the rate again and twice the size: on a crowded tile they are most of the work.
QUICK_MARKET = replace(QUICK, game=replace(QUICK.game, payload_bytes=3_600, updates_per_s=0.75))
# No server is released, because the experiment compares the use of eight servers.
PLANNER = System("equipoise", lambda: Planner(PlannerSettings(servers_min=SERVERS, servers_max=SERVERS)))


def market_world(size: GameSize) -> GameWorld:
    seconds = (PLAYERS_TO - PLAYERS_FROM) / PLAYERS_PER_S
    return GameWorld(
        size=replace(size, game=replace(size.game, market_chance=MARKET_CHANCE)),
        schedule=Schedule((0.0, size.players(PLAYERS_FROM)), (seconds, size.players(PLAYERS_TO))),
        systems=(PLANNER, RING),
        servers_at_start=SERVERS,
        give_up_s=GIVE_UP_S,
    )


def _claims(seen: Games) -> tuple[Claim, ...]:
    ours, rival = seen.outcomes
    reached, rivals = supported(ours), supported(rival)
    best = best_gain_over_ring(seen.match.game, server_names(SERVERS))
    return (
        Claim(
            claim="consistent hashing serves fewer players on the same eight servers, since it cannot divide a tile",
            paper=f"not run; at least ×{RATIO_MIN:g} asked",
            ours=f"{reached:,} against {rivals:,}: ×{reached / rivals:.2f}, of ×{best:.2f} that could be had",
            holds=reached >= RATIO_MIN * rivals,
            value=reached / rivals,
            at_least=RATIO_MIN,
            by_median=True,
        ),
        _replicated(seen, ours),
        *until_full_claims(ours, paper="not run; as on the paper's map, 90 ms asked"),
    )


def _replicated(seen: Games, ours: Outcome) -> Claim:
    game, widest = seen.match.game, ours.widest
    market = game.topic(*game.market)
    is_market = widest is not None and widest.topic == market
    replication = "none" if widest is None else f"{len(widest.homes)}, {widest.mode.value}"
    return Claim(
        claim="homes that the planner gives to the market (Algorithm 1)",
        paper="several, where a channel is too much for a server",
        ours=replication if is_market or widest is None else f"{replication}, of another tile",
        holds=is_market,
    )


def _parameters(seen: Games) -> tuple[tuple[str, str], ...]:
    game = seen.match.game
    load = tile_loads(game)[game.topic(*game.market)]
    column, row = game.market
    market = (
        f"tile {column}/{row}; a player's next point is there with a chance of {game.market_chance:g}, so that "
        f"{sqrt(load) / sum(map(sqrt, tile_loads(game).values())):.0%} of the players are, and {load:.0%} of the load"
    )
    return (*game_parameters(seen), ("market", market))


def _figure(seen: Games) -> Figure:
    return scalability_figure(
        [system.label for system in seen.world.systems],
        seen.outcomes,
        name="dynamoth-2-market",
        title="Players join on a map with a market until the servers are full",
    )


MARKET = Experiment(
    name="dynamoth-2-market",
    source="Dynamoth, V-D, on another map",
    summary="A quarter of the players on one tile: replication divides what hashing cannot.",
    worlds={Size.FULL: market_world(FULL), Size.QUICK: market_world(QUICK_MARKET)},
    world=play_all,
    claims=_claims,
    figures=(_figure, lambda seen: load_figure("dynamoth-2-market-load", seen.outcomes[0])),
    parameters=_parameters,
    notes=game_notes,
    views=lambda seen: seen.views.note,
    takes=("two minutes", "15 minutes"),
)
