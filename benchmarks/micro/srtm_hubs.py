"""How far is the vectorised model of SRTM's experiments from real hubs in the simulator, and why?

    python benchmarks/micro/srtm_hubs.py [--seconds 2] [--seeds 3] [--only HUBS,BATCH,SLOWER]

The points of figures 4 and 5 at a tenth and at a hundredth of the rate, with hubs that are slower by as much: the
same utilisation, fewer messages. All get the same arrivals, seats and shares. Printed, over the seeds: p99 of the hubs,
and the ratio of the hubs' p99 and mean to those of four models: the vectorised one; one that reads a chunk at once; the
same with turns of connections; the same with the hub's timer as well. The aim is a difference of at most 10 %.

Finding: docs/results/srtm-hubs.md.
"""

from __future__ import annotations

import argparse
from functools import partial
from statistics import fmean, stdev
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from equipoise.lab.experiments.srtm_hubs import TIMER_S, hub_latencies, turn_latencies
from equipoise.lab.workload.grouped_publishers import GroupedPublishers
from equipoise.limits.replay import DeliveryCosts, replay, smallest_depth
from equipoise.limits.shares import Envelope

Floats = NDArray[np.float64]

PUBLISHERS, QUANTILE = 6_000, 0.99
CHUNK_S, MESSAGE_S = 9.3e-6, 7.4e-6
# Whether connections take turns, and the timer of each model that reads a chunk at once.
MODELS = ((False, 0.0), (True, 0.0), (True, TIMER_S))


class Point(NamedTuple):
    """So many hubs; messages in batches; a part of the paper's rate, on hubs slower by as much."""

    hubs: int
    batch: int
    slower: int


POINTS = (
    *(Point(hubs, 1, 10) for hubs in (1, 2, 3, 4, 6)),
    *(Point(hubs, 1, 100) for hubs in (1, 2, 3, 4)),
    *(Point(hubs, 10, 10) for hubs in (1, 2, 3)),
)


def compare(point: Point, seconds: float, seed: int) -> tuple[Floats, list[Floats]]:
    """Latencies of the hubs, and of each model, in seconds."""
    publishers = GroupedPublishers(count=PUBLISHERS // point.slower, batch=point.batch)
    trace = publishers.arrivals(seconds * point.slower / 10, np.random.default_rng(seed))
    rate = 1.1 * publishers.topic_rate_per_s
    envelope = Envelope(rate, max(point.hubs, smallest_depth(trace.times_s, rate)))
    costs = DeliveryCosts(CHUNK_S * point.slower, MESSAGE_S * point.slower)
    seats = np.arange(publishers.count) % point.hubs
    vectorised = replay(trace, seats, point.hubs, rate_per_s=rate, depth=envelope.burst, costs=costs)
    in_turns = partial(turn_latencies, trace, seats, point.hubs, envelope, costs)
    hubs = hub_latencies(trace, seats, point.hubs, envelope, costs)
    models = [in_turns(takes_turns=turns, timer_s=timer_s) for turns, timer_s in MODELS]
    return hubs, [vectorised.every_s, *models]


def tell(point: Point, seconds: float, seeds: int) -> None:
    found = [compare(point, seconds, seed) for seed in range(1, seeds + 1)]
    p99_ms = [1e3 * float(np.quantile(hubs, QUANTILE)) for hubs, _ in found]
    spread = stdev(p99_ms) if seeds > 1 else 0.0
    ratios = []
    for model in range(len(MODELS) + 1):
        p99 = [
            float(np.quantile(hubs, QUANTILE) / np.quantile(models[model], QUANTILE))
            for hubs, models in found
        ]
        means = [float(hubs.mean() / models[model].mean()) for hubs, models in found]
        ratios.append(f"x {fmean(p99):.3f} ({fmean(means):.3f})")
    print(
        f"{point.hubs} hubs, batches of {point.batch}, 1/{point.slower} of the rate: p99 {fmean(p99_ms):.2f} ± "
        f"{spread:.2f} ms; {', '.join(ratios)}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=2.0, help="of arrivals, at a tenth of the rate")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", help="one point: hubs, batch and how much slower, such as 2,10,10")
    chosen = parser.parse_args()
    points = [Point(*map(int, chosen.only.split(",")))] if chosen.only else POINTS
    for point in points:
        tell(point, chosen.seconds, chosen.seeds)


if __name__ == "__main__":
    main()
