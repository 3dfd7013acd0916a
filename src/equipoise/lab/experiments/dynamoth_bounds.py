"""The gain of a perfect placement of topics over consistent hashing in Dynamoth's game.

This is a computation on player positions without a simulation. The load of a tile grows with the square of its players,
and the total load with the square of all players. If hashing gives its fullest server the share m of the load, that
server is full when eight evenly loaded servers would be at 1/(8 m): a planner with a perfect balance and no cost serves
√(8 m) times the players.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from math import sqrt
from random import Random

from equipoise.lab.experiments.shedding import shed_placement
from equipoise.lab.scenarios.game import Game, Walker
from equipoise.model.ring import WEIGHT_NORMAL, ring_over

__all__ = ["best_gain_over_ring", "best_gain_over_shedding", "tile_loads"]

WALKERS = 300
STEPS = 200
# Time after which positions no longer depend on the start of the walks.
WARM_UP_S = 60.0


def tile_loads(game: Game) -> dict[bytes, float]:
    """The share of each tile in the total load; the shares sum to 1."""
    return dict(zip(game.topics, _shares(replace(game, world="")), strict=True))


@lru_cache(maxsize=16)
def _shares(game: Game) -> tuple[float, ...]:
    """Shares of all tiles, row by row. They do not depend on the prefix of topic names."""
    stood: Counter[bytes] = Counter()
    for number in range(WALKERS):
        walker = Walker(game, Random(f"bound {number}").random)
        walker.advance(WARM_UP_S)
        stood.update(walker.advance(1.0) for _ in range(STEPS))
    squares = [stood[topic] ** 2 for topic in game.topics]
    return tuple(square / sum(squares) for square in squares)


def best_gain_over_ring(game: Game, servers: Sequence[str]) -> float:
    """The number of players that the best placement serves, relative to the ring on the same servers."""
    ring = ring_over(tuple((name, WEIGHT_NORMAL) for name in servers))
    loads = tile_loads(game)
    placed: dict[str | None, list[bytes]] = {}
    for topic in loads:
        placed.setdefault(ring.owner(topic), []).append(topic)
    return _best_gain(loads, placed.values(), len(servers))


def best_gain_over_shedding(game: Game, servers: Sequence[str]) -> float:
    """The same relative to the hashing of the paper's authors with all servers."""
    loads = tile_loads(game)
    return _best_gain(loads, shed_placement(loads, servers).values(), len(servers))


def _best_gain(loads: Mapping[bytes, float], placed: Iterable[Sequence[bytes]], servers: int) -> float:
    fullest = max(sum(loads[topic] for topic in topics) for topics in placed)
    return sqrt(servers * fullest)
