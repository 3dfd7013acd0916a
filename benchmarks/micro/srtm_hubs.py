"""How far is the vectorised model of SRTM's experiments from real hubs in the simulator?

    python benchmarks/micro/srtm_hubs.py [--seconds 2] [--seed 1]

The points of figures 4 and 5 at a tenth and at a hundredth of the rate, with hubs that are slower by as much: the
same utilisation, fewer messages. Both get the same arrivals, seats and shares. Told: p99 of both, their ratio, and
that of means; at most 10 % apart is asked.
"""

from __future__ import annotations

import argparse
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from equipoise.lab.experiments.srtm_hubs import hub_latencies
from equipoise.lab.workload.grouped_publishers import GroupedPublishers
from equipoise.limits.replay import DeliveryCosts, replay, smallest_depth
from equipoise.limits.shares import Envelope

Floats = NDArray[np.float64]

PUBLISHERS, QUANTILE = 6_000, 0.99
CHUNK_S, MESSAGE_S = 9.3e-6, 7.4e-6


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


def compare(point: Point, seconds: float, seed: int) -> tuple[Floats, Floats]:
    """Latencies of model and hubs, in seconds."""
    publishers = GroupedPublishers(count=PUBLISHERS // point.slower, batch=point.batch)
    trace = publishers.arrivals(seconds * point.slower / 10, np.random.default_rng(seed))
    rate = 1.1 * publishers.topic_rate_per_s
    envelope = Envelope(rate, max(point.hubs, smallest_depth(trace.times_s, rate)))
    costs = DeliveryCosts(CHUNK_S * point.slower, MESSAGE_S * point.slower)
    seats = np.arange(publishers.count) % point.hubs
    model = replay(trace, seats, point.hubs, rate_per_s=rate, depth=envelope.burst, costs=costs)
    hubs = hub_latencies(trace, seats, point.hubs, envelope, costs)
    return model.every_s, hubs


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=2.0, help="of arrivals, at a tenth of the rate")
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    for point in POINTS:
        latencies = compare(point, chosen.seconds, chosen.seed)
        model_s, hubs_s = (float(np.quantile(one, QUANTILE)) for one in latencies)
        means = [float(one.mean()) for one in latencies]
        print(
            f"{point.hubs} hubs, batches of {point.batch}, 1/{point.slower} of the rate: model "
            f"{1e3 * model_s:.2f} ms, hubs {1e3 * hubs_s:.2f} ms, x {hubs_s / model_s:.3f}, "
            f"means x {means[1] / means[0]:.3f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
