"""Real hubs in the simulator and the vectorised model, under the same arrivals."""

from __future__ import annotations

import numpy as np
import pytest

from equipoise.lab.experiments.srtm_hubs import hub_latencies, turn_latencies
from equipoise.lab.workload.grouped_publishers import GroupedPublishers
from equipoise.limits.replay import DeliveryCosts, replay, smallest_depth
from equipoise.limits.shares import Envelope


@pytest.mark.parametrize("hubs", [1, 2])
def test_the_model_is_within_a_tenth_of_real_hubs(hubs: int) -> None:
    """A point of figure 4 at a hundredth of the rate, with processors slower by as much."""
    publishers = GroupedPublishers(count=60)
    trace = publishers.arrivals(6.0, np.random.default_rng(1))
    rate = 1.1 * publishers.topic_rate_per_s
    envelope = Envelope(rate, smallest_depth(trace.times_s, rate))
    costs, seats = DeliveryCosts(930e-6, 740e-6), np.arange(publishers.count) % hubs
    model = replay(trace, seats, hubs, rate_per_s=rate, depth=envelope.burst, costs=costs)
    measured = hub_latencies(trace, seats, hubs, envelope, costs)
    assert len(measured) >= 0.85 * len(trace.times_s)
    for quantile in (0.5, 0.99):
        assert float(np.quantile(measured, quantile)) == pytest.approx(model.quantile_s(quantile), rel=0.1)


def test_chunks_turns_and_the_timer_explain_what_sets_hubs_apart_from_the_model() -> None:
    """Batches of ten at two hubs: the vectorised model is a third too low."""
    publishers = GroupedPublishers(count=600, batch=10)
    trace = publishers.arrivals(1.0, np.random.default_rng(1))
    rate = 1.1 * publishers.topic_rate_per_s
    envelope = Envelope(rate, smallest_depth(trace.times_s, rate))
    costs, seats = DeliveryCosts(93e-6, 74e-6), np.arange(publishers.count) % 2
    model = replay(trace, seats, 2, rate_per_s=rate, depth=envelope.burst, costs=costs)
    measured = float(np.quantile(hub_latencies(trace, seats, 2, envelope, costs), 0.99))
    assert measured > 1.2 * model.quantile_s(0.99)
    in_turns = turn_latencies(trace, seats, 2, envelope, costs)
    assert measured == pytest.approx(float(np.quantile(in_turns, 0.99)), rel=0.1)
