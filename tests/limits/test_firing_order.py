"""The order of publishers that is found from arrivals, judged by what it is for: latencies after a deal."""

from __future__ import annotations

import numpy as np
import pytest

from equipoise.lab.workload.grouped_publishers import GroupedPublishers
from equipoise.limits.firing_order import WINDOWS_S, firing_order
from equipoise.limits.replay import ArrivalTrace, DeliveryCosts, replay, smallest_depth

COSTS = DeliveryCosts(9.3e-6, 7.4e-6)
HUBS = 5


def _latency_s(arrivals: ArrivalTrace, order: np.ndarray) -> float:
    seats = np.empty(len(order), np.int64)
    seats[order] = np.arange(len(order)) % HUBS
    rate = 1.1 * arrivals.rate_per_s
    depth = smallest_depth(arrivals.times_s, rate)
    return replay(arrivals, seats, HUBS, rate_per_s=rate, depth=depth, costs=COSTS).quantile_s(0.99)


def _found(arrivals: ArrivalTrace, count: int) -> float:
    events = arrivals.begins_chunk
    orders = [
        firing_order(arrivals.times_s[events], arrivals.publishers[events], count, window)
        for window in WINDOWS_S
    ]
    for order in orders:
        assert sorted(order.tolist()) == list(range(count))
    return min(_latency_s(arrivals, order) for order in orders)


def _blind(arrivals: ArrivalTrace, count: int) -> float:
    return _latency_s(arrivals, np.random.default_rng(7).permutation(count))


@pytest.mark.parametrize("is_periodic", [False, True], ids=["poisson", "periodic"])
@pytest.mark.parametrize("spread_s", [0.0, 0.008])
def test_a_found_order_is_as_good_as_stated_groups(is_periodic: bool, spread_s: float) -> None:
    workload = GroupedPublishers(count=500, batch=10, group=25, is_periodic=is_periodic, spread_s=spread_s)
    arrivals = workload.arrivals(10.0, np.random.default_rng(5))
    found, stated = _found(arrivals, 500), _latency_s(arrivals, np.arange(500))
    assert found <= 1.1 * stated
    assert _blind(arrivals, 500) > 3 * found


def test_mixed_traffic_is_dealt_as_well_as_if_it_had_been_stated() -> None:
    """Poisson groups, periodic groups and singles on one topic."""
    parts = [
        GroupedPublishers(count=200, batch=10, group=20),
        GroupedPublishers(count=200, batch=10, group=20, is_periodic=True),
        GroupedPublishers(count=100, batch=1),
    ]
    rng = np.random.default_rng(3)
    traces = [part.arrivals(10.0, rng) for part in parts]
    first = np.cumsum([0, 200, 200])
    times_s = np.concatenate([trace.times_s for trace in traces])
    publishers = np.concatenate([trace.publishers + at for trace, at in zip(traces, first, strict=True)])
    begins = np.concatenate([trace.begins_chunk for trace in traces])
    by_time = np.argsort(times_s, kind="stable")
    mixed = ArrivalTrace(times_s[by_time], publishers[by_time], begins[by_time])
    # Who is who is not known to the order: names are shuffled.
    names = rng.permutation(500)
    shuffled = ArrivalTrace(mixed.times_s, names[mixed.publishers], mixed.begins_chunk)
    found, stated = _found(shuffled, 500), _latency_s(shuffled, names)
    assert found <= 1.1 * stated
    assert _blind(shuffled, 500) > 2 * found


def test_publishers_that_never_fire_together_have_some_order() -> None:
    order = firing_order(np.array([0.0, 1.0, 2.0]), np.array([2, 0, 1]), 4, 0.02)
    assert sorted(order.tolist()) == [0, 1, 2, 3]
