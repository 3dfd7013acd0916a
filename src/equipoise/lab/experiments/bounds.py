"""What any placement of topics could gain over a ring, by arithmetic on where players stand.

A tile's load goes with the square of the players on it, and the whole load with the square of all players. If the ring
gives its fullest server the share m of the load, it is full when eight even servers would be at 1/(8 m): a planner that
balances perfectly, and pays nothing for it, serves √(8 m) times the players.
"""

from __future__ import annotations

from collections import Counter
from math import sqrt
from random import Random

from equipoise.lab.scenarios.game import Game, Walker
from equipoise.model.ring import WEIGHT_NORMAL, ring_over

__all__ = ["best_gain_over_ring", "tile_loads"]

WALKERS = 300
STEPS = 200
# For walks to have forgotten where they began.
WARM_UP_S = 60.0


def tile_loads(game: Game) -> dict[bytes, float]:
    """The part of the whole load that each tile makes; they sum to 1."""
    stood: Counter[bytes] = Counter()
    for number in range(WALKERS):
        walker = Walker(game, Random(f"bound {number}").random)
        walker.advance(WARM_UP_S)
        stood.update(walker.advance(1.0) for _ in range(STEPS))
    squares = {topic: count**2 for topic, count in stood.items()}
    total = sum(squares.values())
    return {topic: square / total for topic, square in squares.items()}


def best_gain_over_ring(game: Game, servers: list[str]) -> float:
    """How many times the ring's players the best placement could serve on the same servers."""
    ring = ring_over(tuple((name, WEIGHT_NORMAL) for name in servers))
    shares: Counter[str | None] = Counter()
    for topic, load in tile_loads(game).items():
        shares[ring.owner(topic)] += load  # type: ignore[assignment]  # a Counter counts fractions as well
    return sqrt(len(servers) * max(shares.values()))
