"""The game: players stay on the map, rest where they arrive, and subscribe to their tile."""

from __future__ import annotations

from math import hypot
from random import Random

import pytest

from equipoise.lab.scenarios.game import Game, Walker

GAME = Game()


def walker(seed: int, game: Game = GAME) -> Walker:
    return Walker(game, Random(seed).random)


def test_there_is_one_topic_for_each_tile() -> None:
    assert len(GAME.topics) == len(set(GAME.topics)) == 64
    assert GAME.topic_at(0.0, 0.0) == b"world/tile/0/0"
    assert GAME.topic_at(199.9, 25.0) == b"world/tile/7/1"


def test_the_far_edges_belong_to_the_last_tiles() -> None:
    assert GAME.topic_at(GAME.side_length, GAME.side_length) == b"world/tile/7/7"


@pytest.mark.parametrize("seed", range(20))
def test_a_player_never_leaves_the_map_and_never_walks_faster_than_it_may(seed: int) -> None:
    player = walker(seed)
    for _ in range(2_000):
        x, y = player.x, player.y
        topic = player.advance(GAME.interval_s)
        assert 0 <= player.x <= GAME.side_length
        assert 0 <= player.y <= GAME.side_length
        assert hypot(player.x - x, player.y - y) <= GAME.speed_per_s * GAME.interval_s + 1e-9
        assert topic == GAME.topic_at(player.x, player.y) == player.topic


def test_a_player_rests_at_every_point_it_reaches() -> None:
    game = Game(rest_s=(2.0, 2.0))
    player = walker(3, game)
    still_s = moving_s = 0.0
    for _ in range(20_000):
        x, y = player.x, player.y
        player.advance(0.1)
        if (x, y) == (player.x, player.y):
            still_s += 0.1
        else:
            moving_s += 0.1
    # Two random points of a square of side a are 0.521 a apart on average: 10.4 s of walking, then 2 s of rest.
    assert still_s / (still_s + moving_s) == pytest.approx(2.0 / 12.4, rel=0.15)


def test_a_market_draws_a_quarter_of_the_players_and_a_map_without_one_is_as_before() -> None:
    game = Game(market=(2, 5), market_chance=0.5)
    players = [walker(seed, game) for seed in range(40)]
    stood = [player.advance(1.0) for _ in range(200) for player in players]
    assert stood.count(b"world/tile/2/5") / len(stood) == pytest.approx(0.24, abs=0.04)
    assert [walker(1, Game(market=(0, 0))).advance(1.0) for _ in range(9)] == [
        walker(1).advance(1.0) for _ in range(9)
    ]


def test_a_walk_does_not_depend_on_how_it_is_cut_into_steps() -> None:
    one, other = walker(5), walker(5)
    for _ in range(100):
        one.advance(3.0)
        for _ in range(30):
            other.advance(0.1)
        assert (one.x, one.y) == pytest.approx((other.x, other.y), abs=1e-6)


def test_players_gather_in_the_middle_as_random_waypoints_do() -> None:
    """In the stationary state the middle quarter of the map holds about 45 % of the players."""
    in_middle = 0
    for seed in range(600):
        player = walker(seed)
        player.advance(120.0)
        in_middle += 50 <= player.x < 150 and 50 <= player.y < 150
    assert 0.38 <= in_middle / 600 <= 0.55


def test_the_same_draws_give_the_same_walk() -> None:
    one, other = walker(7), walker(7)
    assert [one.advance(1.0) for _ in range(50)] == [other.advance(1.0) for _ in range(50)]
