"""Latencies of a run: the worst of each second, and the histogram of all."""

from __future__ import annotations

import math

import numpy as np
import pytest

from equipoise.lab.experiments.meter import BIN_S, Latencies


def test_the_worst_of_each_second_is_kept_by_topic() -> None:
    seen = Latencies(3, 100.0)
    for topic, now, latency_s in (
        (b"a", 100.1, 0.01),
        (b"a", 100.9, 0.03),
        (b"b", 100.5, 0.02),
        (b"b", 102.0, 0.05),
    ):
        seen.note(topic, now, latency_s)
    assert seen.topics == [b"a", b"b"]
    assert np.allclose(seen.worst_s(b"a"), [0.03, np.nan, np.nan], equal_nan=True)
    assert np.allclose(seen.worst_s(), [0.03, np.nan, 0.05], equal_nan=True)
    assert np.isnan(seen.worst_s(b"unknown")).all()


def test_messages_before_and_after_the_run_do_not_count() -> None:
    seen = Latencies(2, 100.0)
    for now in (99.5, 102.0, 200.0):
        seen.note(b"a", now, 0.01)
    assert seen.messages == 0
    assert math.isnan(seen.quantile_s(0.5))


def test_quantiles_are_of_all_messages_and_never_too_low() -> None:
    seen = Latencies(1, 0.0)
    for number in range(1, 101):
        seen.note(b"a", 0.5, number / 1_000)
    assert seen.quantile_s(0.99) == pytest.approx(0.099, abs=2 * BIN_S)
    assert seen.quantile_s(0.99) >= 0.099
    assert seen.share_above(0.0505) == pytest.approx(0.5)
