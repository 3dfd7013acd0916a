"""Which goal applies to which row, and when it is met."""

from __future__ import annotations

import pytest

from equipoise.lab.bench.cases import FanoutCase, IdleCase, PacedCase
from equipoise.lab.bench.result import Metric, Row, goal_for

PAIRS = {"hub": [1.0, 1.0, 9.0], "redis": [2.0, 2.0, 2.0]}


def fan(fanout: int, batch: int = 50, topics: int = 1) -> FanoutCase:
    return FanoutCase(fanout, 100, batch, topics, 1000)


@pytest.mark.parametrize(
    ("case", "ratio_max"),
    [
        (fan(1000), 0.5),
        (fan(100), 0.5),
        (fan(10), 1.0),
        (fan(10, topics=50), 1.0),
        (fan(1), 1.0),
        (FanoutCase(1, 1000, 50, 1, 1000), 1.2),
        (fan(1, topics=50), 1.2),
        (fan(1, batch=1), 1.3),
        (fan(100, batch=1), None),
        (fan(7), None),
    ],
)
def test_cpu_goals_depend_on_fanout_and_manner(case: FanoutCase, ratio_max: float | None) -> None:
    assert goal_for(case, Metric.CPU) == ratio_max


def test_throughput_and_median_latency_have_no_goal_of_their_own() -> None:
    assert goal_for(fan(100), Metric.RATE) is None
    assert goal_for(PacedCase(20, 100, 1000, 100), Metric.LATENCY_P50) is None


def test_tail_latency_and_memory_have_goals() -> None:
    assert goal_for(PacedCase(20, 100, 1000, 100), Metric.LATENCY_P99) == 1.5
    assert goal_for(IdleCase(5000, True), Metric.MEMORY_SETTLED) == 1.0
    assert goal_for(IdleCase(5000, False), Metric.MEMORY_FRESH) == 0.75


def test_a_goal_is_judged_by_the_median_of_the_pairs_ratios() -> None:
    row = Row(fan(100), Metric.CPU, PAIRS)
    assert row.ratios("redis") == [0.5, 0.5, 4.5]
    assert row.is_met is True


def test_a_ratio_above_the_goal_is_not_met() -> None:
    assert Row(fan(100), Metric.CPU, {"hub": [1.02], "redis": [2.0]}).is_met is False


@pytest.mark.parametrize("values", [{"hub": [1.0]}, {"redis": [1.0]}, {}])
def test_without_a_pair_a_goal_is_neither_met_nor_missed(values: dict[str, list[float]]) -> None:
    assert Row(fan(100), Metric.CPU, values).is_met is None


def test_without_a_goal_there_is_nothing_to_meet() -> None:
    assert Row(fan(100), Metric.RATE, PAIRS).is_met is None
