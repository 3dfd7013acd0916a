"""The replay of arrivals against the bucket that hubs have, and against queues that are written out."""

from __future__ import annotations

from math import exp, factorial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from equipoise.limits.bucket import TOKEN, Bucket
from equipoise.limits.replay import (
    ArrivalTrace,
    DeliveryCosts,
    admitted_at,
    replay,
    served_at,
    smallest_depth,
)

GAPS_US = st.lists(st.integers(0, 5_000), min_size=1, max_size=60)
COSTS = DeliveryCosts(9.3e-6, 7.4e-6)


def _arrivals(gaps_us: list[int]) -> np.ndarray:
    return np.cumsum(np.array(gaps_us)) / 1e6


@settings(max_examples=200)
@given(GAPS_US, st.integers(100, 20_000), st.integers(1, 20))
def test_a_replay_admits_when_a_hubs_bucket_does(gaps_us: list[int], rate: int, depth: int) -> None:
    times_s = _arrivals(gaps_us)
    bucket = Bucket(rate * 1_000_000, depth * TOKEN, 0, level=depth * TOKEN)
    now, expected = 0, []
    for time_s in times_s:
        now = max(now, round(time_s * 1e9))
        wait = bucket.wait(1, now)
        assert wait is not None
        now += wait
        assert bucket.take(1, now)
        expected.append(now / 1e9)
    assert admitted_at(times_s, float(rate), depth) == pytest.approx(expected, abs=2e-9 * len(gaps_us))


@settings(max_examples=200)
@given(GAPS_US, st.data())
def test_a_processor_takes_messages_in_turn(gaps_us: list[int], data: st.DataObject) -> None:
    times_s = _arrivals(gaps_us)
    costs_us = data.draw(st.lists(st.integers(1, 3_000), min_size=len(gaps_us), max_size=len(gaps_us)))
    free_s, expected = 0.0, []
    for time_s, cost_us in zip(times_s, costs_us, strict=True):
        free_s = max(free_s, time_s) + cost_us / 1e6
        expected.append(free_s)
    assert served_at(times_s, np.array(costs_us) / 1e6) == pytest.approx(expected)


@settings(max_examples=100)
@given(GAPS_US, st.integers(100, 20_000))
def test_the_smallest_depth_delays_no_more_than_it_may_and_one_less_does(
    gaps_us: list[int], rate: int
) -> None:
    times_s = _arrivals(gaps_us)
    depth = smallest_depth(times_s, float(rate), 0.9, warm_up=0.0)

    def delayed(depth: int) -> float:
        return float(np.mean(admitted_at(times_s, float(rate), depth) > times_s + 1e-9))

    assert delayed(depth) <= 0.1 + 1 / len(times_s)
    assert depth == 1 or delayed(depth - 1) > 0.0


@settings(max_examples=60)
@given(GAPS_US, st.integers(1, 4), st.integers(0, 10_000))
def test_a_split_bucket_delays_at_least_as_much_as_an_undivided_one(
    gaps_us: list[int], hubs: int, seed: int
) -> None:
    """Proposition 1, of the sum of waits; processors take nothing, depths are not rounded up."""
    times_s = np.sort(_arrivals(gaps_us))
    rng = np.random.default_rng(seed)
    at_hub = rng.integers(0, hubs, len(times_s))
    rate, depth = 1_000.0, float(4 * len(times_s))
    whole = float((admitted_at(times_s, rate, depth) - times_s).sum())
    split = 0.0
    for hub in range(hubs):
        mine = times_s[at_hub == hub]
        if len(mine):
            part = len(mine) / len(times_s)
            split += float((admitted_at(mine, rate * part, depth * part) - mine).sum())
    assert split >= whole - 1e-9


def test_other_topics_share_the_processor_and_need_no_tokens() -> None:
    single = np.ones(100, np.bool_)
    mine = ArrivalTrace(np.arange(100) / 1_000, np.zeros(100, np.int64), single)
    other = ArrivalTrace(np.arange(100) / 1_000 - 1e-6, np.zeros(100, np.int64), single)
    seats = np.zeros(1, np.int64)

    def latency_s(background: list[ArrivalTrace | None]) -> float:
        found = replay(mine, seats, 1, rate_per_s=1e6, depth=100, costs=COSTS, background=background)
        return found.quantile_s(0.5)

    assert latency_s([None]) == pytest.approx(16.7e-6)
    assert latency_s([other]) == pytest.approx(2 * 16.7e-6 - 1e-6)


def test_a_hub_without_messages_has_no_latency() -> None:
    one = ArrivalTrace(np.array([0.0, 1.0]), np.zeros(2, np.int64), np.ones(2, np.bool_))
    found = replay(one, np.zeros(1, np.int64), 2, rate_per_s=10, depth=1, costs=COSTS)
    assert found.by_hub_s(0.99)[1] == 0.0


def _odds_of_a_wait(load: float, depth: int) -> float:
    """P(U > b - 1) of an M/D/1 queue with unit service, by the series of its unfinished work."""
    terms = (
        (-load * (depth - 1 - j)) ** j * exp(load * (depth - 1 - j)) / factorial(j) for j in range(depth)
    )
    return 1.0 - (1.0 - load) * sum(terms)


@pytest.mark.parametrize(("load", "depth", "tolerance"), [(0.7, 1, 0.02), (0.9, 1, 0.05), (0.9, 4, 0.05)])
def test_poisson_arrivals_wait_as_long_as_equation_1_of_srtm_says(
    load: float, depth: int, tolerance: float
) -> None:
    """It is exact for a depth of one token, and for deeper buckets the nearer the more the rate is used."""
    rate_per_s = 1_000.0
    times_s = np.cumsum(np.random.default_rng(1).exponential(1 / (load * rate_per_s), 1_000_000))
    delays_s = (admitted_at(times_s, rate_per_s, depth) - times_s)[len(times_s) // 10 :]
    expected_s = _odds_of_a_wait(load, depth) / (2 * rate_per_s * (1 - load))
    assert float(delays_s.mean()) == pytest.approx(expected_s, rel=tolerance)


@pytest.mark.parametrize("hubs", [2, 4])
def test_a_random_split_of_poisson_arrivals_makes_waits_longer_by_the_number_of_hubs_at_least(
    hubs: int,
) -> None:
    """What follows from equation 1: each token takes longer to come, and a smaller bucket is empty more often."""
    rate_per_s, depth = 1_000.0, 8
    random = np.random.default_rng(2)
    times_s = np.cumsum(random.exponential(1 / (0.9 * rate_per_s), 400_000))
    whole = float((admitted_at(times_s, rate_per_s, depth) - times_s).mean())
    seats = random.integers(0, hubs, len(times_s))
    parts = [times_s[seats == hub] for hub in range(hubs)]
    delays_s = [admitted_at(part, rate_per_s / hubs, depth / hubs) - part for part in parts]
    assert float(np.concatenate(delays_s).mean()) >= hubs * whole
