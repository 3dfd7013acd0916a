"""Groups that tour a coast: they play in the right cities, no hub serves all of it, and topics follow."""

from __future__ import annotations

import pytest

from equipoise.lab.experiments.epulsar_evening import EXPERIMENT_9_TOUR
from equipoise.lab.experiments.epulsar_limits import Compared
from equipoise.lab.experiments.epulsar_session import Evening, play
from equipoise.lab.experiments.epulsar_tour import COAST, STAGE, TourSession, arena, cities_of
from equipoise.lab.experiments.epulsar_worlds import GAME_LIMIT_MS, city_rtt_s

SMALL = TourSession(
    players=8, groups=1, updates_per_s=2.0, seconds=45, settle_s=25.0, begin_s=20.0, stop_s=15.0
)


def test_a_group_goes_along_the_coast_and_back_by_one_city_at_a_time() -> None:
    session = TourSession(stop_s=10.0)
    firsts = [cities_of(session, 0, 10.0 * step).start for step in range(11)]
    assert firsts == [0, 1, 2, 3, 4, 5, 4, 3, 2, 1, 0]
    assert {len(cities_of(session, group, 35.0)) for group in range(session.groups)} == {STAGE}
    assert len({cities_of(session, group, 35.0) for group in range(session.groups)}) >= 4


def test_no_hub_serves_the_whole_coast_and_every_stage_has_one_that_serves_it() -> None:
    rtt_ms = 1e3 * city_rtt_s(COAST)
    # From a client near each city to the hub of each; there and on again.
    worst_ms = 2 * rtt_ms[len(COAST) :, : len(COAST)]
    asked_ms = (1 - SMALL.margin) * GAME_LIMIT_MS
    assert worst_ms.max(axis=0).min() > GAME_LIMIT_MS
    for first in range(len(COAST) - STAGE + 1):
        assert worst_ms[first : first + STAGE].max(axis=0).min() < asked_ms


@pytest.fixture(scope="module")
def played() -> Evening:
    return play(SMALL)


def test_a_topic_follows_its_group(played: Evening) -> None:
    assert played.latencies.topics == [arena(0)]
    assert len(played.lived_at[arena(0)]) >= 2
    assert played.moves


def test_no_update_of_a_tour_is_lost(played: Evening) -> None:
    assert played.changes >= 5
    assert played.meter.deliveries > 300
    assert played.meter.lost == 0


def test_a_tour_is_judged_by_where_topics_have_lived_and_by_the_claims_of_figure_9(played: Evening) -> None:
    found = EXPERIMENT_9_TOUR.judge(Compared(played, played))
    assert len(found.claims) == 5
    assert found.claims[0].value == min(len(at) for at in played.lived_at.values())
    assert found.claims[-1].holds
