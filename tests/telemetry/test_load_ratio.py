"""The one definition of load."""

from __future__ import annotations

import pytest

from equipoise.telemetry.load import lag_ratio, load_ratio

IDLE = {
    "cpu_ratio": 0.0,
    "loop_lag_s": 0.0,
    "out_bytes_per_s": 0.0,
    "out_bytes_per_s_max": 0.0,
    "deliveries_per_s": 0.0,
    "deliveries_per_s_max": 0.0,
}


@pytest.mark.parametrize(
    "measured, ratio",
    [
        ({}, 0.0),
        ({"cpu_ratio": 0.7}, 0.8),
        ({"out_bytes_per_s": 90.0, "out_bytes_per_s_max": 100.0, "cpu_ratio": 0.7}, 0.9),
        ({"out_bytes_per_s": 1e12}, 0.0),
        ({"deliveries_per_s": 9e5, "deliveries_per_s_max": 1e6}, 0.9),
        ({"loop_lag_s": 0.04}, 0.8),
        ({"loop_lag_s": 0.1}, 1.1),
    ],
)
def test_a_hub_is_as_full_as_what_it_has_least_of(measured: dict[str, float], ratio: float) -> None:
    assert load_ratio(**(IDLE | measured)) == pytest.approx(ratio)


def test_lag_beyond_full_adds_a_tenth_for_each_doubling() -> None:
    assert lag_ratio(0.05) == 1.0
    assert lag_ratio(0.4) == pytest.approx(1.3)
