"""Players in a few cities: groups change as described, updates reach their groups, and topics satisfy their limits."""

from __future__ import annotations

import pytest

from equipoise.lab.experiments.epulsar_evening import EXPERIMENT_9
from equipoise.lab.experiments.epulsar_limits import Compared
from equipoise.lab.experiments.epulsar_session import (
    Country,
    Evening,
    GameSession,
    edge,
    limit_s,
    play,
    topic_of,
)

SMALL = GameSession(
    cities=3,
    players=12,
    groups=2,
    updates_per_s=5.0,
    seconds=60,
    settle_s=40.0,
    begin_s=60.0,
    stay_s=(25.0, 45.0),
)


def test_a_player_is_near_the_hubs_of_its_city_and_as_far_as_they_are_from_others() -> None:
    country = Country(GameSession())
    near = country.link(edge("chicago"), "chicago")
    assert near.latency_s == pytest.approx(0.0025, abs=0.0003)
    far = country.link("new-york", "los-angeles").latency_s
    assert far == pytest.approx(0.0345, abs=0.001)
    assert country.link(edge("new-york"), "los-angeles").latency_s == pytest.approx(far + 0.0025)


@pytest.fixture(scope="module")
def played() -> Evening:
    return play(SMALL)


def test_limits_hold_while_groups_change(played: Evening) -> None:
    assert played.changes >= 8
    assert played.latencies.quantile_s(0.99) < limit_s()
    assert played.latencies.topics == sorted(topic_of(player) for player in range(SMALL.players))


def test_the_first_player_hears_others_and_never_itself(played: Evening) -> None:
    assert len(played.heard.topics) >= 3
    assert topic_of(0) not in played.heard.topics


def test_no_update_is_lost(played: Evening) -> None:
    assert played.meter.deliveries > 4_000
    assert played.meter.lost == 0


def test_claims_depend_on_the_measurement(played: Evening) -> None:
    found = EXPERIMENT_9.judge(Compared(played, played))
    assert [claim.holds for claim in found.claims] == [True] * 4
    titles = [panel.title for panel in found.figures[0].panels]
    assert titles == ["what the first player hears of each other", "all topics", "all topics, with hashing"]
