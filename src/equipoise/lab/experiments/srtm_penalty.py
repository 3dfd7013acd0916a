"""SRTM, figure 4: the cost of splitting a bucket over one to six hubs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from equipoise.lab.experiments.experiment import Experiment, Progress, curves, sweep
from equipoise.lab.experiments.result import Claim, Figure, Panel, Size
from equipoise.lab.experiments.srtm_topic import (
    COSTS,
    HUBS,
    LIMIT_S,
    MODEL_NOTE,
    LimitedTopic,
    Mean,
    SplitScale,
    mean_of,
    split_parameters,
)
from equipoise.lab.workload.grouped_publishers import GroupedPublishers
from equipoise.limits.replay import DeliveryCosts

__all__ = ["EXPERIMENT_4"]

_QUANTILES = (0.5, 0.95, 0.99)
# The costs are fitted to the paper; these factors show how the result depends on them.
_COST_FACTORS = (0.7, 1.0, 1.3)


class _Latencies(NamedTuple):
    hubs: int
    factor: float
    by_quantile: tuple[Mean, ...]


@dataclass(frozen=True, slots=True)
class _Penalty:
    scale: SplitScale
    rows: list[_Latencies]

    def row(self, hubs: int, factor: float = 1.0) -> _Latencies:
        return next(one for one in self.rows if (one.hubs, one.factor) == (hubs, factor))

    def best(self, factor: float) -> int:
        return min(range(1, HUBS + 1), key=lambda hubs: self.row(hubs, factor).by_quantile[-1].mean)


def _one_penalty(point: tuple[int, float], scale: SplitScale, seed: int) -> list[list[float]]:
    """Quantiles for each number of hubs."""
    run, factor = point
    workload = GroupedPublishers(count=scale.publishers[0])
    costs = DeliveryCosts(COSTS.chunk_s * factor, COSTS.message_s * factor)
    topic = LimitedTopic(workload, scale.seconds, 1_000 * seed + run, costs=costs)
    rng = np.random.default_rng([seed, run])
    dealt = rng.permutation(workload.count)
    return [topic.latencies_s(dealt % hubs, _QUANTILES) for hubs in range(1, HUBS + 1)]


def split_one_topic(scale: SplitScale, seed: int, progress: Progress) -> _Penalty:
    points = [(run, factor) for factor in _COST_FACTORS for run in range(scale.runs)]
    found = sweep(partial(_one_penalty, scale=scale, seed=seed), points, progress, "traces")
    rows = []
    for factor in _COST_FACTORS:
        for hubs in range(1, HUBS + 1):
            values = [found[run, factor][hubs - 1] for run in range(scale.runs)]
            means = tuple(mean_of([one[at] for one in values]) for at in range(len(_QUANTILES)))
            rows.append(_Latencies(hubs, factor, means))
    return _Penalty(scale, rows)


def _claims_4(seen: _Penalty) -> tuple[Claim, ...]:
    p99 = [seen.row(hubs).by_quantile[-1] for hubs in range(1, HUBS + 1)]
    cheap, dear = seen.best(_COST_FACTORS[0]), seen.best(_COST_FACTORS[-1])
    return (
        Claim(
            claim="one hub is saturated: its 99th percentile is far above that of two",
            paper="large tail latency",
            ours=f"{p99[0].text()} against {p99[1].text()}",
            holds=p99[0].mean > 3 * p99[1].mean,
        ),
        Claim(
            claim="two hubs have the lowest 99th percentile",
            paper="alleviates the problem while keeping the penalty small",
            ours=f"{seen.best(1.0)} hubs; with costs 30 % lower {cheap}, 30 % higher {dear}",
            holds=seen.best(1.0) == 2,
        ),
        Claim(
            claim="each hub more makes it worse",
            paper="a progressive degradation",
            ours=", ".join(f"{one.mean * 1e3:.2f}" for one in p99[1:]) + " ms for 2 to 6 hubs",
            holds=all(one.mean <= other.mean for one, other in pairwise(p99[1:])),
        ),
    )


def _figure_4(seen: _Penalty) -> Figure:
    def panel(factor: float) -> Panel:
        rows = [
            (
                f"{quantile:.0%}",
                [(row.hubs, row.by_quantile[at].mean * 1e3) for row in seen.rows if row.factor == factor],
            )
            for at, quantile in enumerate(_QUANTILES)
        ]
        return Panel(
            title="costs as fitted" if factor == 1.0 else f"costs × {factor:g}",
            y_label="latency, ms",
            lines=curves(rows, lambda one: one[0], lambda one: round(one[1], 4)),
            level=1e3 * LIMIT_S,
            level_label="limit",
            is_log=True,
        )

    panels = tuple(panel(factor) for factor in (1.0, 0.7, 1.3))
    return Figure(name="srtm-4", title="Cost of splitting a bucket (figure 4)", x_label="hubs", panels=panels)


EXPERIMENT_4 = Experiment(
    name="srtm-4",
    source="SRTM, VI-A, figure 4",
    summary="What splitting a bucket costs: a topic of 6,000 Poisson publishers over 1 to 6 hubs.",
    worlds={Size.FULL: SplitScale((6_000,), 20.0, 10), Size.QUICK: SplitScale((6_000,), 5.0, 3)},
    world=split_one_topic,
    claims=_claims_4,
    figures=(_figure_4,),
    parameters=lambda seen: split_parameters(seen.scale),
    notes=lambda seen: (
        MODEL_NOTE,
        "Whether one hub is saturated hangs on the assumed capacity: 60,000 messages a second come in, and 60,000 "
        "are what a hub carries. With costs 30 % lower one hub carries them, and is best.",
    ),
    takes=("10 seconds", "2 minutes"),
)
