"""How many hubs a limited topic should have, found by replaying its arrivals."""

from __future__ import annotations

import numpy as np
import pytest

from equipoise.lab.workload.grouped_publishers import GroupedPublishers
from equipoise.limits.replay import DeliveryCosts, smallest_depth
from equipoise.limits.shares import Envelope
from equipoise.limits.split_fit import (
    BLIND,
    STATED,
    SplitTrial,
    TrialLatency,
    choose_split,
    found_order,
    replay_trial,
    split_orders,
    split_trials,
    trace_of,
)

COSTS = DeliveryCosts(chunk_s=9.3e-6, message_s=7.4e-6)


def test_a_trace_is_made_of_runs() -> None:
    trace = trace_of([0.0, 1.0, 1.5], [0, 1, 0], [2, 1, 3])
    assert trace.times_s.tolist() == [0.0, 0.0, 1.0, 1.5, 1.5, 1.5]
    assert trace.publishers.tolist() == [0, 0, 1, 0, 0, 0]
    assert trace.begins_chunk.tolist() == [True, False, True, True, False, False]
    assert len(trace_of([], [], []).times_s) == 0


def test_groups_dealt_apart_need_a_few_hubs_and_a_blind_deal_is_worse() -> None:
    workload = GroupedPublishers(count=200, batch=10, is_periodic=False, group=20)
    trace = workload.arrivals(8.0, np.random.default_rng(1))
    rate = 1.1 * workload.topic_rate_per_s
    envelope = Envelope(rate, smallest_depth(trace.times_s, rate))
    groups = [f"{workload.group_of(i)}" for i in range(workload.count)]
    orders = split_orders(groups, {0.02: found_order(0.02, trace, workload.count)})
    trials = split_trials(orders, 4)
    assert {trial.hubs for trial in trials} == {1, 2, 3, 4}
    found = [replay_trial(trial, trace, envelope, COSTS, 0.99) for trial in trials if trial.hubs in (1, 4)]
    by_order = {one.order: one.latency_s for one in found if one.hubs == 4}
    assert by_order[STATED] < 0.5 * by_order[BLIND]
    alone = next(one for one in found if one.hubs == 1)
    assert alone.latency_s == pytest.approx(alone.undivided_s)
    chosen = choose_split(found, limit_s=10.0)
    assert (chosen.hubs, chosen.is_within) == (1, True)


def test_the_smallest_number_within_the_margin_is_chosen_and_blind_deals_are_not() -> None:
    latencies = [
        TrialLatency(1, STATED, 0.005, 0.005, 0.005),
        TrialLatency(2, BLIND, 0.0001, 0.0001, 0.0001),
        TrialLatency(2, STATED, 0.0009, 0.0008, 0.0009),
        TrialLatency(3, STATED, 0.0007, 0.0006, 0.0007),
    ]
    chosen = choose_split(latencies, limit_s=0.001)
    assert (chosen.hubs, chosen.latency_s, chosen.is_within) == (3, 0.0007, True)
    best = choose_split(latencies, limit_s=0.0001)
    assert (best.hubs, best.is_within) == (3, False)


def test_a_split_that_only_looks_good_because_the_bucket_was_never_empty_is_not_chosen() -> None:
    """Poisson groups of 30: ten seconds do not empty the bucket, and four hubs, which do not divide 30, look fine."""
    workload = GroupedPublishers(count=990, batch=10, is_periodic=False, group=30)
    trace = workload.arrivals(40.0, np.random.default_rng([3000, 0]))
    rate = 1.1 * workload.topic_rate_per_s
    envelope = Envelope(rate, smallest_depth(trace.times_s, rate))
    kept = trace.times_s < 10.0
    recorded = trace._replace(
        times_s=trace.times_s[kept], publishers=trace.publishers[kept], begins_chunk=trace.begins_chunk[kept]
    )
    orders = split_orders([""] * workload.count, {0.02: found_order(0.02, recorded, workload.count)})
    trials = split_trials(orders, 6)
    found = [replay_trial(trial, recorded, envelope, COSTS, 0.99) for trial in trials]
    by_hubs = {one.hubs: one for one in found if one.order != BLIND}
    assert by_hubs[4].latency_s <= 0.0008 < 0.001 < by_hubs[4].tight_s
    chosen = choose_split(found, limit_s=0.001)
    assert (chosen.hubs, chosen.is_within) == (5, True)
    seats = next(trial.seats for trial in trials if (trial.hubs, trial.order) == (5, chosen.order))
    after = replay_trial(SplitTrial(5, chosen.order, seats), trace, envelope, COSTS, 0.99)
    assert after.latency_s - after.undivided_s <= 0.0005


def test_where_the_burst_is_too_small_for_any_number_hubs_are_chosen_for_the_rest() -> None:
    latencies = [
        TrialLatency(1, STATED, 0.004, 0.004, 0.003),
        TrialLatency(2, STATED, 0.0041, 0.004, 0.0009),
        TrialLatency(3, STATED, 0.0043, 0.004, 0.0005),
    ]
    chosen = choose_split(latencies, limit_s=0.001)
    assert (chosen.hubs, chosen.is_within) == (2, False)


def test_a_number_that_one_order_keeps_by_luck_is_not_chosen() -> None:
    latencies = [
        *(
            TrialLatency(4, order, 0.0006, 0.0006, tight)
            for order, tight in (("found, 2 ms", 0.0009), (STATED, 0.006))
        ),
        *(TrialLatency(5, order, 0.0005, 0.0005, 0.0007) for order in ("found, 2 ms", STATED)),
    ]
    assert choose_split(latencies, limit_s=0.001).hubs == 5
    assert choose_split(latencies, limit_s=0.001, orders="found").hubs == 4
