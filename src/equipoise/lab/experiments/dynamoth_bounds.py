"""What a perfect placement of topics gains over consistent hashing in Dynamoth's game.

This is arithmetic on where players stand: nothing is run. A tile's load goes with the square of the players on it, and
the whole load with the square of all players. If hashing gives its fullest server the share m of the load, it is full
when eight even servers would be at 1/(8 m): a planner that balances perfectly, and pays nothing for it, serves √(8 m)
times the players.
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
# For walks to have forgotten where they began.
WARM_UP_S = 60.0


def tile_loads(game: Game) -> dict[bytes, float]:
    """The part of the whole load that each tile makes; they sum to 1."""
    return dict(zip(game.topics, _shares(replace(game, world="")), strict=True))


@lru_cache(maxsize=16)
def _shares(game: Game) -> tuple[float, ...]:
    """Of all tiles, row by row: another world has the same players under other names."""
    stood: Counter[bytes] = Counter()
    for number in range(WALKERS):
        walker = Walker(game, Random(f"bound {number}").random)
        walker.advance(WARM_UP_S)
        stood.update(walker.advance(1.0) for _ in range(STEPS))
    squares = [stood[topic] ** 2 for topic in game.topics]
    return tuple(square / sum(squares) for square in squares)


def best_gain_over_ring(game: Game, servers: Sequence[str]) -> float:
    """How many times the ring's players the best placement could serve on the same servers."""
    ring = ring_over(tuple((name, WEIGHT_NORMAL) for name in servers))
    loads = tile_loads(game)
    placed: dict[str | None, list[bytes]] = {}
    for topic in loads:
        placed.setdefault(ring.owner(topic), []).append(topic)
    return _best_gain(loads, placed.values(), len(servers))


def best_gain_over_shedding(game: Game, servers: Sequence[str]) -> float:
    """The same over hashing as the paper's authors ran it, once it has all servers."""
    loads = tile_loads(game)
    return _best_gain(loads, shed_placement(loads, servers).values(), len(servers))


def _best_gain(loads: Mapping[bytes, float], placed: Iterable[Sequence[bytes]], servers: int) -> float:
    fullest = max(sum(loads[topic] for topic in topics) for topics in placed)
    return sqrt(servers * fullest)
