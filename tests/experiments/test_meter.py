"""Measurements of a run: means over seconds, percentiles, losses, and the start of bad service."""

from __future__ import annotations

from math import isnan

import numpy as np
import pytest

from equipoise.lab.experiments.meter import Meter, Second, percentile
from equipoise.lab.experiments.run_game import Match, Outcome
from equipoise.lab.scenarios.game import Schedule


def meter(responses_s: list[float], *, deaf: list[int] | None = None) -> Meter:
    """One response in each second."""
    made = Meter(began_at=100.0)
    for second, response_s in enumerate(responses_s):
        made.respond(100.0 + second + 0.5, response_s)
        made.seconds.append(
            Second(at_s=second + 1.0, players=100, servers=1, deaf=deaf[second] if deaf else 0, lost=second)
        )
    return made


def outcome(responses_s: list[float], *, deaf: list[int] | None = None) -> Outcome:
    match = Match(schedule=Schedule((0, 1), (1, 1)))
    return Outcome(match=match, meter=meter(responses_s, deaf=deaf), plans=1, moves=0)


def test_a_mean_is_of_the_seconds_up_to_each() -> None:
    assert meter([1.0, 2.0, 3.0, 4.0]).means(2).tolist() == [1.0, 1.5, 2.5, 3.5]


def test_a_second_without_responses_has_none() -> None:
    made = Meter()
    made.seconds.append(Second(at_s=1.0, players=0, servers=1))
    assert isnan(made.means(1)[0])


def test_responses_can_be_added_after_they_were_looked_at() -> None:
    made = meter([1.0])
    kept = made.means(1)
    made.respond(100.6, 5.0)
    assert kept.tolist() == [1.0]
    assert made.means(1).tolist() == [3.0]
    assert sorted(made.between(0.0, 1.0).tolist()) == [1.0, 5.0]


def test_losses_are_recorded_per_second() -> None:
    made = meter([1.0, 1.0, 1.0])
    made.missed = 7
    assert made.lost_until(2) == 1
    assert made.lost == 7


def test_a_percentile_of_nothing_is_unknown() -> None:
    assert isnan(percentile(np.array([]), 99))
    assert percentile(np.arange(101.0), 99) == pytest.approx(99.0)


def test_a_spike_is_not_the_end() -> None:
    spiky = [0.07] * 30 + [0.5] * 4 + [0.07] * 30
    found = outcome(spiky)
    assert found.is_lost.any()
    assert found.lost_from(20) is None


def test_a_run_is_lost_from_the_first_second_of_what_lasts() -> None:
    found = outcome([0.07] * 30 + [1.0] * 30)
    # The mean over five seconds is above 0.15 s from the first slow second on.
    assert found.lost_from(20) == 30


def test_players_without_messages_make_the_service_bad_although_others_are_served_well() -> None:
    found = outcome([0.07] * 60, deaf=[0] * 30 + [3] * 30)
    assert found.lost_from(20) == 30


def test_a_schedule_goes_in_straight_lines_between_its_points() -> None:
    schedule = Schedule((0, 100), (10, 200), (20, 50))
    assert [schedule.at(second) for second in (0, 5, 10, 15, 20, 99)] == [100, 150, 200, 125, 50, 50]
    assert schedule.duration_s == 20
    assert schedule.players_max == 200
