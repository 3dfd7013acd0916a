"""Medians, percentiles and ratios of pairs."""

from __future__ import annotations

import pytest

from equipoise.profile.statistics import median, pair_ratios, percentile


def test_a_percentile_is_a_sample_that_was_taken() -> None:
    ordered = [float(n) for n in range(1, 101)]
    assert percentile(ordered, 0.50) == 50.0
    assert percentile(ordered, 0.99) == 99.0
    assert percentile(ordered, 1.0) == 100.0


def test_the_percentile_of_one_sample_is_that_sample() -> None:
    assert percentile([7.0], 0.01) == percentile([7.0], 0.99) == 7.0


def test_a_ratio_is_taken_within_its_round() -> None:
    # The machine slows down by ten from the first round to the second; the ratios do not notice.
    assert pair_ratios([1.0, 10.0], [2.0, 20.0]) == [0.5, 0.5]


def test_a_round_that_only_one_server_finished_forms_no_pair() -> None:
    assert pair_ratios([1.0, 3.0, 5.0], [2.0]) == [0.5]
    assert pair_ratios([1.0], []) == []


def test_a_rival_that_measured_nothing_forms_no_pair() -> None:
    assert pair_ratios([1.0, 1.0], [0.0, 4.0]) == [0.25]


def test_one_disturbed_round_does_not_move_the_median_of_ratios() -> None:
    ratios = pair_ratios([1.0, 1.0, 9.0, 1.0, 1.0], [2.0] * 5)
    assert median(ratios) == pytest.approx(0.5)
