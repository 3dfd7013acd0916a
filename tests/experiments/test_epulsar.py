"""ePulsar's experiments in tiny worlds: worlds match their description, and claims depend on the findings."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from equipoise.coordinates import ClientGroup, Coordinate
from equipoise.coordinates.centroid import expected_worst_s
from equipoise.lab.experiments import EXPERIMENTS
from equipoise.lab.experiments.epulsar_coordinates import (
    EXPERIMENT_3,
    CoordinatesScale,
    Noise,
    cost,
    distances_s,
    embed,
)
from equipoise.lab.experiments.epulsar_jobs import Found, InProcess, Pace, Row, Task, settle, simulate
from equipoise.lab.experiments.epulsar_placing import EXPERIMENT_4, GAME, SWARM, PlacingSetup, place_by
from equipoise.lab.experiments.epulsar_selection import NodesEstimate, evaluate, select
from equipoise.lab.experiments.epulsar_worlds import PlacedClients, game_world, k_means, swarm_world
from equipoise.lab.experiments.experiment import silent
from equipoise.plan.latency import PairsEstimate
from equipoise.plan.latency.limits import legs_s
from equipoise.view.view import places_of


def test_every_figure_that_can_be_reproduced_is_registered() -> None:
    assert {f"epulsar-{figure}" for figure in range(3, 10)} <= EXPERIMENTS.keys()


def test_nodes_find_a_network_that_is_known_and_the_same_seed_finds_the_same() -> None:
    rtt_s = np.array([[0.0, 0.02, 0.05], [0.02, 0.0, 0.03], [0.05, 0.03, 0.0]])
    places = embed(rtt_s, 200, 1, Noise())
    assert np.abs(distances_s(places) - rtt_s).max() < 0.006
    assert embed(rtt_s, 200, 1, Noise()) == places


def test_a_small_star_is_judged_by_what_was_measured() -> None:
    found = EXPERIMENT_3.find(CoordinatesScale((4, 6), (10, 20), seconds=200, runs=1), 1)
    names = [claim.claim for claim in found.claims]
    assert len(names) == 6
    assert found.claims[0].holds and found.claims[1].holds
    panel = found.figures[0].panels[0]
    assert [line.label for line in panel.lines] == ["10 ms", "20 ms"]
    assert panel.lines[0].x == (4.0, 6.0)


def test_coordinates_cost_a_hub_less_than_a_megabyte() -> None:
    found = cost(20, 1)
    assert 0 < found.memory_bytes < 1_000_000
    assert found.cpu_ratio > 0


def test_cities_are_as_far_apart_as_the_great_circle_says() -> None:
    world = game_world(4)
    assert world.rtt_s[0, 1] == pytest.approx(0.0689, abs=0.0005)
    # A game server is 5 ms from its hub, and as much farther from all others.
    assert world.rtt_s[4, 0] == pytest.approx(0.005)
    assert world.rtt_s[4, 1] == pytest.approx(world.rtt_s[0, 1] + 0.005)
    assert world.rtt_s[4, 5] == pytest.approx(world.rtt_s[0, 1] + 0.010)
    assert (world.rtt_s == world.rtt_s.T).all()


def test_players_listen_to_the_others_of_their_group() -> None:
    placement = game_world(4).draw(np.random.default_rng(1))
    assert len(placement.topics) == len(set(placement.topics)) <= 1_024
    assert len(placement.topics) > 1_000
    assert placement.publishers.shape[1] == 1
    assert placement.publishers.min() >= 4
    heard = (placement.subscribers >= 0).sum()
    # Groups of a thousand and some players in 128: seven others on average, and a little more by chance.
    assert 7.0 < heard / len(placement.topics) < 9.0


def test_zones_are_one_switch_apart_and_the_cloud_is_far() -> None:
    world = swarm_world(3, 1)
    assert world.rtt_s[0, 1] == pytest.approx(0.030)
    assert world.rtt_s[3, 0] == pytest.approx(0.005)
    assert world.rtt_s[3, 1] == pytest.approx(0.035)
    assert world.rtt_s[6, 0] == pytest.approx(0.080)
    placement = world.draw(np.random.default_rng(1))
    assert len(placement.topics) == 32
    leader, sensors = placement.subscribers[0], placement.publishers[1]
    assert (leader == sensors).all() and len(set(leader.tolist())) == 1


def test_k_means_finds_clusters() -> None:
    random = np.random.default_rng(1)
    corners = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    points = np.concatenate([corner + random.normal(0, 0.01, (30, 2)) for corner in corners])
    best = min(
        (k_means(points, 3, np.random.default_rng(seed)) for seed in range(5)),
        key=lambda c: _apart(c, corners),
    )
    assert _apart(best, corners) < 0.02


def _apart(
    centres: np.ndarray[tuple[int, ...], np.dtype[np.float64]],
    truth: np.ndarray[tuple[int, ...], np.dtype[np.float64]],
) -> float:
    return float(max(np.linalg.norm(centres - one, axis=1).min() for one in truth))


LINE = [Coordinate((x / 1_000, 0.0), 0.1, 0.0) for x in (0, 50, 100, 0, 50, 100)]


def line_world() -> tuple[PlacedClients, NodesEstimate]:
    placement = PlacedClients(
        (b"one", b"two"), np.array([[3, -1], [4, 5]]), np.array([[3, 4, -1], [5, -1, -1]])
    )
    return placement, NodesEstimate(placement, legs_s(places_of(LINE), places_of(LINE[:3])))


def test_every_client_of_a_node_is_where_the_node_is() -> None:
    placement, estimate = line_world()
    sides = [
        (places_of([LINE[n] for n in inward if n >= 0]), places_of([LINE[n] for n in outward if n >= 0]))
        for inward, outward in zip(placement.publishers.tolist(), placement.subscribers.tolist(), strict=True)
    ]
    pairs = PairsEstimate(sides, places_of(LINE[:3]), np.zeros(3))
    both = np.array([0, 1])
    assert np.allclose(estimate.worst_s(both), pairs.worst_s(both))


def test_policies_choose_by_what_they_know() -> None:
    placement, _ = line_world()
    rtt_s = distances_s(LINE)
    world = replace(game_world(3), rtt_s=rtt_s, hubs=np.arange(3), limit_ms=120.0)
    chosen = select(world, LINE, placement)
    assert chosen["all-pairs"].tolist() == [0, 2]
    crowds = [ClientGroup.of([LINE[n] for n in nodes]) for nodes in ([3], [3, 4])]
    assert crowds[0] is not None and crowds[1] is not None
    worst = [expected_worst_s(crowds[0], crowds[1], LINE[hub]) for hub in range(3)]
    assert chosen["epulsar"][0] == int(np.argmin(worst))
    outcome = evaluate(world, placement, np.array([2, 0]))
    # Of the first topic 100 + 100 and 100 + 50, of the second 50 + 100 and 100 + 100.
    assert (outcome.pairs, outcome.violated) == (4, 4)
    assert outcome.worst_ms == pytest.approx(200)


class Backwards(InProcess):
    """As a job that returns its rows in another order."""

    cores = 2

    def run(self, tasks: tuple[Task, ...], total: int) -> list[Row]:
        return super().run(tasks, total)[::-1]


def test_a_job_has_the_same_result_with_any_runner_and_order() -> None:
    tasks = [settle("swarm", zones, 1, seconds=100) for zones in (2, 3)]
    found, pace = simulate(tasks, 4, InProcess("asked for"))
    backwards, other_pace = simulate(tasks, 4, Backwards("asked for"))
    assert found == backwards
    assert other_pace.alone_s > 0
    assert found[3, "epulsar"].violated == 0
    assert found[3, "hashing"].ratio > 0.3
    assert pace.simulations == 8
    assert "one after the other: asked for" in pace.line


def test_the_speed_up_is_shown() -> None:
    assert Pace(1_000, 20.0, 36.0, 2).line.endswith("×1.80")


@pytest.mark.parametrize(("setup", "sizes", "claims"), [(GAME, (3, 4), 4), (SWARM, (2, 3), 5)])
def test_claims_of_small_worlds_hold(setup: PlacingSetup, sizes: tuple[int, ...], claims: int) -> None:
    small = replace(setup, sizes=sizes, seconds=200, placements=2)
    found = EXPERIMENT_4.judge(place_by(InProcess("asked for"), small, 1, silent))
    assert len(found.claims) == claims
    assert all(claim.holds for claim in found.claims)
    assert [line.label for line in found.figures[0].panels[2].lines] == ["epulsar", "all-pairs", "hashing"]


def test_nothing_is_judged_to_be_within_a_limit_that_is_not() -> None:
    assert Found(50.0, 60.0, 200, 3).ratio == pytest.approx(0.015)
