"""SRTM's experiments at the size of a test: they run, and agree with the model."""

from __future__ import annotations

from functools import partial

import numpy as np

from equipoise.lab.experiments.experiment import silent
from equipoise.lab.experiments.registry import EXPERIMENTS, experiments_by_name
from equipoise.lab.experiments.srtm_dealing import GroupScale, deal_groups
from equipoise.lab.experiments.srtm_topic import LimitedTopic, SplitScale, choose
from equipoise.lab.workload.grouped_publishers import GroupedPublishers
from equipoise.limits.distribution import SplitPolicy


def test_there_is_one_for_each_figure_and_the_table() -> None:
    names = [experiment.name for experiment in experiments_by_name("srtm")]
    assert names == ["srtm-4", "srtm-5", "srtm-6", "srtm-7", "srtm-8", "srtm-9", "srtm-table1"]


def _verdicts(name: str, world: object) -> dict[str, bool]:
    findings = EXPERIMENTS[name].find(world, 1)
    assert findings.figures
    for figure in findings.figures:
        for panel in figure.panels:
            assert all(len(line.x) == len(line.y) for line in panel.lines)
    return {claim.claim: claim.holds for claim in findings.claims}


def test_splitting_a_bucket_costs_more_with_each_hub() -> None:
    found = _verdicts("srtm-4", SplitScale((6_000,), 2.0, 1))
    assert found["each hub more makes it worse"]


def test_concentration_is_better_than_load_balancing() -> None:
    found = _verdicts("srtm-5", SplitScale((1_000, 2_000), 2.0, 1))
    assert found["concentration is better than load balancing with every workload"]


def test_room_by_cpu_is_better_than_room_by_counts_at_busy_hubs() -> None:
    found = _verdicts("srtm-6", SplitScale((2_000, 8_000), 2.0, 1))
    assert any(holds for claim, holds in found.items() if "room counted by CPU" in claim)
    assert found["a topic that fits on one hub is placed alike by both"]


def test_groups_are_dealt_better_than_blindly() -> None:
    seen = deal_groups(GroupScale((25,), (0, 16), 10.5, 1), 1, silent)
    found = {
        claim.claim: claim.holds
        for name in ("srtm-7", "srtm-8", "srtm-9")
        for claim in EXPERIMENTS[name].judge(seen).claims
    }
    for words in ("what the split adds", "an order found", "dealing groups", "a blind deal"):
        assert [holds for claim, holds in found.items() if claim.startswith(words)] == [True], words


def test_a_topic_is_distributed_by_replay_where_measuring_takes_rounds() -> None:
    found = _verdicts("srtm-table1", GroupScale((5, 20), (0,), 5.5, 1))
    # The first claim is of wall time, which a test does not judge.
    assert found["rounds of measuring by the paper's way, groups of 5 against 20"]


def test_the_same_seed_gives_the_same_splits() -> None:
    workload = GroupedPublishers(count=200, batch=10, group=10)
    splits = [
        choose(partial(LimitedTopic(workload, 4.0, 3).split, SplitPolicy.CORRELATION), 1) for _ in range(2)
    ]
    assert splits[0] == splits[1]


def test_publishers_send_at_their_stated_rate() -> None:
    for is_periodic in (False, True):
        workload = GroupedPublishers(count=300, batch=10, group=15, is_periodic=is_periodic, spread_s=0.004)
        arrivals = workload.arrivals(20.0, np.random.default_rng(1))
        assert abs(len(arrivals.times_s) / 20.0 / workload.topic_rate_per_s - 1) < 0.1
        assert np.all(np.diff(arrivals.times_s) >= 0)
        # One chunk of ten for each firing.
        assert arrivals.begins_chunk.sum() * 10 == len(arrivals.times_s)
