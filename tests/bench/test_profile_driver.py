"""A profile's driver on a real hub: what it says was sent and delivered was."""

from __future__ import annotations

from itertools import pairwise

import pytest

from equipoise.profile.driver import LoadPace, LoadShape, crew_of, measure, rates
from equipoise.profile.servers import KINDS, running

PACE = LoadPace(warm_s=0.05, seconds=0.2, factor=2.0)


@pytest.mark.parametrize("shape", [LoadShape(3, 2, 4, 64), LoadShape(1, 1, 1, 20_000)])
def test_what_is_sent_is_delivered_to_every_consumer_and_timed(shape: LoadShape) -> None:
    with running(KINDS["hub"]) as server, crew_of(server, shape) as crew:
        found = measure(server, crew, 500.0, PACE)
        again = measure(server, crew, 500.0, PACE)
    for each in (found, again):
        assert each.shape == shape
        assert each.publications_per_s > 0
        # Of a load that is not at an end some deliveries are still under way.
        assert each.deliveries_per_s == pytest.approx(each.publications_per_s * shape.consumers, rel=0.5)
        assert 0 < each.p50_ms <= each.p95_ms
        assert each.cpu_ratio > 0
        assert 0 <= each.left_out < 1


def test_rates_rise_from_what_bores_any_hub_to_what_the_driver_can_do() -> None:
    rising = rates(2.0)
    assert rising[0] == 500.0
    assert all(after == 2 * before for before, after in pairwise(rising))
    assert rising[-1] <= 400_000
