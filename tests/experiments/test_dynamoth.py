"""Dynamoth's experiments in sizes that take seconds: that they run, judge what they measured, and lose nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from equipoise.lab.experiments import (
    EXPERIMENTS,
    Claim,
    Experiment,
    Findings,
    Size,
    dynamoth_channel,
    dynamoth_game,
    dynamoth_market,
    run,
    silent,
    to_object,
)
from equipoise.lab.experiments.dynamoth_findings import scalability_claims, supported
from equipoise.lab.experiments.meter import Meter, Second
from equipoise.lab.experiments.run_game import Match, Outcome, play
from equipoise.lab.experiments.views import ViewMaking
from equipoise.lab.scenarios.game import Game, Schedule
from equipoise.lab.simulation.cluster.controller import LiveViews
from equipoise.model import Entry, Mode
from equipoise.plan import PlannerSettings
from equipoise.plan.planner import Planner

# Eight servers of this bandwidth are full at some fifty players on sixteen tiles.
TINY = dynamoth_game.GameSize(
    out_bytes_per_s=60e3,
    game=Game(tiles_per_side=4, tile_length=50.0, payload_bytes=300),
    scale=0.05,
    pace=1.0,
    players_at_start=120,
    spark_every=10,
)


@contextmanager
def without_spark(every: int) -> Iterator[ViewMaking]:
    yield ViewMaking(LiveViews, "this is a test")


JOINING = dynamoth_game.GameWorld(
    size=TINY,
    schedule=Schedule((0, 8), (45, 50)),
    systems=(dynamoth_game.PLANNER, dynamoth_game.SHEDDING),
    give_up_s=40,
    views=without_spark,
)
UPS_AND_DOWNS = dynamoth_game.GameWorld(
    size=TINY, schedule=Schedule((0, 8), (25, 40), (35, 40), (40, 10), (50, 10)), views=without_spark
)


def check(name: str, found: Findings) -> None:
    assert found.claims
    assert all(claim.claim and claim.paper and claim.ours for claim in found.claims)
    for figure in found.figures:
        assert figure.name.startswith(name)
        for panel in figure.panels:
            for line in panel.lines:
                assert len(line.x) == len(line.y) > 0


def test_there_are_the_four_experiments_of_the_paper_and_one_on_another_map() -> None:
    assert [name for name in EXPERIMENTS if name.startswith("dynamoth-")] == [
        "dynamoth-1a",
        "dynamoth-1b",
        "dynamoth-2",
        "dynamoth-2-market",
        "dynamoth-3",
    ]
    ours = [experiment for name, experiment in EXPERIMENTS.items() if name.startswith("dynamoth-")]
    assert all(experiment.takes[0] and experiment.takes[1] for experiment in ours)


@pytest.mark.parametrize("setup", [dynamoth_channel.SETUP_1A, dynamoth_channel.SETUP_1B], ids=["1a", "1b"])
def test_three_servers_carry_more_of_a_channel_than_one(
    setup: dynamoth_channel.ChannelSetup,
) -> None:
    # A tenth of the speed, a tenth of the clients.
    speed, counts = setup.cpu_speed / 10, (10, 40, 100, 200)
    small = replace(setup, cpu_speed=speed, counts=counts, duration_s=5.0, step=20, is_planned=False)
    found = EXPERIMENTS[setup.name].find(small, 1)
    check(setup.name, found)
    one, three, lost = found.claims
    assert lost.holds
    assert int(three.ours.split(",")[0]) > 1.5 * int(one.ours)


def test_experiment_2_counts_the_players_of_each_system() -> None:
    found = EXPERIMENTS["dynamoth-2"].find(JOINING, 1)
    check("dynamoth-2", found)
    ours, theirs = (int(claim.ours.split(":")[0]) for claim in found.claims[:2])
    assert ours > 0
    assert theirs > 0
    assert "this is a test" in found.views


def test_a_market_is_judged_by_the_players_of_both_and_by_the_homes_of_its_tile() -> None:
    def found(topic: bytes) -> tuple[Claim, ...]:
        slow = [0.07] * 60 + [2.0] * 40
        ours, rival = (outcome([count] * 100, slow) for count in (500, 200))
        game = replace(TINY.game, market_chance=0.5)
        ours = replace(ours, widest=Entry(topic, ("hub-1", "hub-2"), Mode.ALL_SUBSCRIBERS))
        world = dynamoth_market.market_world(TINY)
        match = replace(ours.match, game=game)
        seen = dynamoth_game.Games(world, match, (ours, rival), ViewMaking(LiveViews, "this is a test"))
        return EXPERIMENTS["dynamoth-2-market"].judge(seen).claims

    ratio, homes = found(TINY.game.topic(3, 3))[:2]
    assert ratio.ours.startswith("500 against 200: ×2.50")
    assert ratio.holds
    assert (homes.ours, homes.holds) == ("2, all-subscribers", True)
    assert not found(TINY.game.topic(0, 0))[1].holds


def test_experiment_3_lets_servers_follow_and_loses_nothing() -> None:
    result = run(
        replace(EXPERIMENTS["dynamoth-3"], worlds={Size.QUICK: UPS_AND_DOWNS}), Size.QUICK, 1, silent
    )
    shown = json.loads(json.dumps(to_object(result), allow_nan=False))
    lost = result.claims[-1]
    assert lost.holds, lost.ours
    servers = shown["series"]["dynamoth-3"]["panels"][0]["lines"]["servers"]["y"]
    assert max(servers) > servers[0] == 1


def test_a_tile_that_no_server_can_carry_is_spread_while_servers_join() -> None:
    market = Game(
        tiles_per_side=4,
        payload_bytes=1_000,
        updates_per_s=2.0,
        market=(1, 1),
        market_chance=0.8,
        world="world-1",
    )
    crowd = Schedule((0, 10), (30, 30), (60, 31))
    seen = play(
        Match(schedule=crowd, game=market, servers=4, out_bytes_per_s=700e3),
        Planner(PlannerSettings(servers_max=4)),
    )
    servers = [second.servers for second in seen.meter.seconds]
    assert servers[0] == 1 and servers[-1] >= 3
    assert seen.widest is not None and seen.widest.topic == market.topic(1, 1)
    assert len(seen.widest.homes) >= 2
    assert seen.meter.lost == 0


def outcome(players: list[int], responses_s: list[float]) -> Outcome:
    meter = Meter()
    for second, (count, response_s) in enumerate(zip(players, responses_s, strict=True)):
        meter.respond(second + 0.5, response_s)
        meter.seconds.append(Second(at_s=second + 1.0, players=count, servers=1))
    return Outcome(match=Match(schedule=Schedule((0, 1), (1, 1))), meter=meter, plans=1, moves=0)


def test_players_are_supported_until_they_are_served_badly_for_good() -> None:
    players = list(range(100, 200))
    assert supported(outcome(players, [0.07] * 60 + [2.0] * 40)) == 159
    assert supported(outcome(players, [0.07] * 40 + [2.0] * 3 + [0.07] * 57)) == 199


def test_an_experiment_is_judged_by_what_was_asked_of_it() -> None:
    def findings(ours: float, theirs: float) -> Findings:
        slow = [0.07] * 60 + [2.0] * 40
        pairs = [outcome([int(count)] * 100, slow) for count in (ours, theirs)]
        claims = scalability_claims(lambda count: count, *pairs, bounds=(1.75, 1.27))
        return Findings(claims=claims, figures=())

    assert [claim.holds for claim in findings(1_000, 625).claims[:2]] == [True, True]
    assert [claim.holds for claim in findings(1_000, 626).claims[:2]] == [True, False]
    assert [claim.holds for claim in findings(900, 500).claims[:2]] == [False, True]


def test_an_experiment_has_a_name_a_source_and_a_summary_of_one_line() -> None:
    for experiment in EXPERIMENTS.values():
        assert isinstance(experiment, Experiment)
        assert "\n" not in experiment.summary
        assert experiment.source
