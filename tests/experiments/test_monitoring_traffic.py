"""The telemetry of a hub's topics does not grow with their clients."""

from __future__ import annotations

import pytest

from equipoise.lab.experiments.epulsar_monitoring import EXPERIMENT_6, MonitoringScale, listen


def test_a_topic_takes_as_many_bytes_with_many_clients_as_with_one() -> None:
    one, many = listen(3, 1, 1), listen(3, 40, 1)
    assert (one.located, many.located) == (1, 40)
    assert one.topic_bytes > 200
    # Numbers that are alike in several columns are written once, and whether some are is chance.
    assert many.topic_bytes == pytest.approx(one.topic_bytes, rel=0.02)


def test_every_clients_coordinate_would_take_its_own_bytes() -> None:
    few, many = listen(2, 5, 1), listen(2, 50, 1)
    assert many.pairs_bytes_per_s - few.pairs_bytes_per_s >= 2 * 45 * 88


def test_claims_of_a_small_hub_hold() -> None:
    found = EXPERIMENT_6.find(MonitoringScale((1, 4), (1, 400)), 1)
    assert [claim.holds for claim in found.claims] == [True, True, True]
    lines = found.figures[0].panels[0].lines
    assert [line.label for line in lines][-1] == "centroids, 400 clients"
    assert lines[-1].y == pytest.approx(lines[-2].y, rel=0.02)
