"""What could be gained over hashing: exact where it can be told by hand, plausible on the game's map."""

from __future__ import annotations

from math import sqrt
from statistics import median

import pytest

from equipoise.lab.experiments.dynamoth_bounds import (
    best_gain_over_ring,
    best_gain_over_shedding,
    tile_loads,
)
from equipoise.lab.experiments.shedding import shed_placement
from equipoise.lab.scenarios.game import Game

SERVERS = [f"hub-{number}" for number in range(1, 9)]


def test_loads_sum_to_one_and_are_symmetric_and_highest_in_the_middle() -> None:
    game = Game()
    loads = tile_loads(game)
    assert sum(loads.values()) == pytest.approx(1.0)
    corner, middle = loads[game.topic(0, 0)], loads[game.topic(3, 3)]
    assert middle > 10 * corner
    assert loads[game.topic(3, 3)] == pytest.approx(loads[game.topic(4, 4)], rel=0.25)


def test_a_single_tile_leaves_seven_servers_idle() -> None:
    assert best_gain_over_ring(Game(tiles_per_side=1, tile_length=200.0), SERVERS) == pytest.approx(sqrt(8))


def test_many_tiles_leave_little_to_gain() -> None:
    few = best_gain_over_ring(Game(tiles_per_side=4, tile_length=50.0), SERVERS)
    many = best_gain_over_ring(Game(tiles_per_side=16, tile_length=12.5), SERVERS)
    assert 1.0 < many < few < sqrt(8)


def test_the_first_two_of_eight_servers_keep_a_third_of_all_channels_each() -> None:
    placed = shed_placement(Game().topics, SERVERS)
    counts = [len(placed[server]) for server in SERVERS]
    assert sum(counts) == 64
    assert counts[0] == pytest.approx(64 / 3, abs=2) == counts[1]
    assert max(counts[2:]) < counts[1] / 2


def test_over_200_worlds_a_perfect_placement_serves_1_75_times_the_players_of_hashing_in_the_median() -> None:
    gains = [best_gain_over_shedding(Game(world=f"world-{seed}"), SERVERS) for seed in range(1, 201)]
    assert median(gains) == pytest.approx(1.75, abs=0.01)
    assert gains[0] == pytest.approx(1.63, abs=0.01)
