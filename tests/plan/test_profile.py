"""Self-profiling: a hub's price of work and the rate at which it is full, from its own samples; and its noise."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from equipoise.plan import PlannerSettings
from equipoise.plan.memory import HubNoise, HubProfile, HubSample, updated_noise, updated_profile

SETTINGS = PlannerSettings()


def after(samples: list[HubSample]) -> HubProfile:
    profile = HubProfile()
    for sample in samples:
        profile = updated_profile(profile, sample, SETTINGS)
    return profile


def working(work: float, price: float, *, idle: float = 0.0) -> HubSample:
    return HubSample(work, idle + price * work, work * 1e8, 0.001)


def test_too_few_samples_give_no_profile() -> None:
    assert after([working(0.5, 2.0)] * 29).price(SETTINGS) is None
    assert after([working(0.5, 2.0)] * 30).price(SETTINGS) == pytest.approx(2.0)


def test_an_idle_hub_gives_no_profile() -> None:
    assert after([working(0.001, 2.0, idle=0.05)] * 100).price(SETTINGS) is None


@pytest.mark.parametrize("price", [0.3, 1.0, 4.0])
def test_the_price_is_the_slope_without_the_cost_of_idling(price: float) -> None:
    random = np.random.default_rng(1)
    samples = [
        HubSample(work, 0.08 + price * work * wobble, 1e6, 0.001)
        for work, wobble in zip(
            random.uniform(0.1, 0.6, 300) / price, random.normal(1, 0.05, 300), strict=True
        )
    ]
    assert after(samples).price(SETTINGS) == pytest.approx(price, rel=0.1)


def test_the_profile_of_a_hub_that_becomes_slower_changes_after_a_while() -> None:
    samples = [working(0.1, 2.0)] * 600 + [working(0.1, 4.0)] * 1800
    assert after(samples).price(SETTINGS) == pytest.approx(4.0, rel=0.1)


def sending(mb_per_s: float, lag_s: float, cpu_ratio: float = 0.7) -> HubSample:
    return HubSample(0.1, cpu_ratio, mb_per_s * 1e6, lag_s)


def test_a_hub_that_was_never_in_distress_has_no_known_limit() -> None:
    assert math.isinf(after([sending(80, 0.001)] * 50).out_bytes_full(SETTINGS))


def test_the_rate_of_distress_is_full() -> None:
    profile = after([sending(50, 0.001)] * 20 + [sending(70, 0.2)] * 3)
    assert profile.out_bytes_full(SETTINGS) == pytest.approx(0.95 * 70e6)


def test_distress_far_below_calm_rates_has_another_cause() -> None:
    profile = after([sending(80, 0.001)] * 20 + [sending(20, 0.5)] * 5)
    assert math.isinf(profile.out_bytes_full(SETTINGS))


def test_distress_without_work_has_another_cause() -> None:
    profile = after([sending(50, 0.001)] * 20 + [sending(70, 0.2, cpu_ratio=0.3)] * 3)
    assert math.isinf(profile.out_bytes_full(SETTINGS))


def test_a_hub_that_begins_in_distress_is_not_judged_by_it() -> None:
    assert math.isinf(after([sending(0.001, 0.5)] * 5).out_bytes_full(SETTINGS))


def test_calm_above_the_rate_of_distress_lifts_it() -> None:
    profile = after([sending(50, 0.001)] * 20 + [sending(60, 0.2), sending(65, 0.001)])
    assert math.isinf(profile.out_bytes_full(SETTINGS))


@given(
    st.lists(
        st.builds(HubSample, st.floats(0, 10), st.floats(0, 2), st.floats(0, 1e10), st.floats(0, 5)),
        max_size=60,
    )
)
def test_a_profile_is_valid_for_any_samples(samples: list[HubSample]) -> None:
    profile = after(samples)
    price = profile.price(SETTINGS)
    assert price is None or 0 < price < math.inf
    assert profile.out_bytes_full(SETTINGS) > 0


def heard_all(seconds: list[float]) -> HubNoise:
    """A view every second over the last ten."""
    noise = HubNoise()
    for end in range(10, len(seconds) + 1):
        window = np.array(seconds[end - 10 : end])
        at = np.arange(10) - 4.5
        noise = updated_noise(noise, float(window.mean()), 10 * float(at @ window / (at @ at)), 1.0)
    return noise


@pytest.mark.parametrize("deviation", [0.02, 0.06, 0.2])
def test_noise_is_learnt_within_minutes(deviation: float) -> None:
    seconds = np.random.default_rng(2).normal(0.6, deviation, 1500).tolist()
    assert heard_all(seconds).deviation == pytest.approx(deviation / math.sqrt(10), rel=0.35)


def test_growth_is_not_taken_for_noise() -> None:
    growing = (0.3 + 0.002 * np.arange(600)).tolist()
    noise = heard_all(growing)
    assert noise.deviation < 0.01
    assert noise.rise_level == pytest.approx(0.02, rel=0.1)


def test_a_step_does_not_make_the_planner_deaf() -> None:
    assert heard_all([0.4] * 900 + [0.95] * 5).deviation < 0.01


def test_one_outlier_is_no_growth_and_a_step_is() -> None:
    base, step = 0.5, 0.8
    first = updated_noise(heard_all([base] * 60), base + step / 10, 0.0, 1.0)
    # The next second is back to normal: the mean stays. Or it is not: the mean follows.
    assert not first.is_growing(base + step / 10, base + step, 0.1)
    assert first.is_growing(base + 2 * step / 10, base + step, 0.1)
