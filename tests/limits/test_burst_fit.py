"""Fitting an envelope: against the exact bucket, and against what was not fitted."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from equipoise.limits import TOKEN, Bucket, nanoseconds
from equipoise.limits.burst_fit import candidates, delays_of, fit_envelope, halves


def waits_s(times: list[float], rate: float, burst: int) -> list[float]:
    """By the bucket that hubs use: each message in turn, when its token is there."""
    bucket = Bucket(round(rate * 1e6), burst * TOKEN, 0, level=burst * TOKEN)
    waits, free_at = [], 0
    for at in times:
        now = max(nanoseconds(at), free_at)
        wait = bucket.wait(1, now)
        assert wait is not None
        free_at = now + wait
        assert bucket.take(1, free_at)
        waits.append((free_at - nanoseconds(at)) / 1e9)
    return waits


def p99(waits: list[float]) -> float:
    return float(np.quantile(waits, 0.99, method="higher"))


@given(st.lists(st.integers(0, 100), min_size=2, max_size=120))
def test_the_burst_is_the_smallest_with_which_the_bucket_of_hubs_delays_none_of_99_in_100(
    gaps_ms: list[int],
) -> None:
    times = np.cumsum(np.array(gaps_ms, dtype=np.float64)) / 1e3
    fit = fit_envelope(times)
    fitted = halves(times)[0].tolist()
    assert p99(waits_s(fitted, fit.rate_per_s, fit.burst)) < 1e-6
    if fit.burst > 1:
        assert p99(waits_s(fitted, fit.rate_per_s, fit.burst - 1)) > 0


def test_a_burst_that_the_second_half_exceeds_does_not_hold() -> None:
    calm = np.arange(0, 50, 0.1)
    bursts = np.repeat(np.arange(50, 100, 5.0), 50)
    fit = fit_envelope(np.concatenate([calm, bursts]))
    assert (fit.burst, fit.holds, fit.has_enough) == (1, False, True)
    assert fit.judged_s > 1.0
    assert fit.whole_burst > 40
    assert fit.rate_per_s == pytest.approx(11.0, rel=0.01)


def test_a_steady_topic_needs_no_burst_and_too_few_messages_are_said() -> None:
    assert fit_envelope(np.arange(0, 100, 0.1)).holds
    assert not fit_envelope(np.arange(0, 10, 0.1)).has_enough
    assert not fit_envelope(np.array([])).has_enough
    assert not fit_envelope(np.array([1.0])).has_enough


def test_the_curve_falls_and_meets_what_was_found() -> None:
    rng = np.random.default_rng(1)
    times = np.cumsum(rng.exponential(0.01, 5_000))
    fit = fit_envelope(times)
    curve = sorted((delays_of(one) for one in candidates(times, fit)), key=lambda one: one.burst)
    fitted = [one.fitted_s for one in curve]
    assert fitted == sorted(fitted, reverse=True)
    assert next(one.burst for one in curve if not one.fitted_s) == fit.burst
