"""What does a split cost with the measured CPU times of a hub, instead of the times fitted to SRTM's figures?

    python benchmarks/micro/srtm_costs.py [--chunk-us 19.2] [--message-us 0.18] [--seconds 20] [--runs 10]

The topics of figures 4, 5 and 7 (6,000 publishers, 60,000 messages per second) over 1 to 6 hubs: singly, in tens, and
groups of 20, dealt by group and blind. Printed: the p99 in ms, mean and deviation of the runs, and what the split adds
to the same publishers behind one bucket. The costs are those of `equipoise bench fanout`, fan-out 1, 100 bytes: 19.4 µs
for a message that comes alone, 0.181 µs for one of fifty.

Finding: docs/results/srtm.md.
"""

from __future__ import annotations

import argparse
from statistics import fmean, stdev
from typing import NamedTuple

import numpy as np

from equipoise.lab.experiments.srtm_topic import HUBS, LimitedTopic, Split
from equipoise.lab.workload.grouped_publishers import GroupedPublishers
from equipoise.limits.replay import DeliveryCosts

PUBLISHERS = 6_000


class Workload(NamedTuple):
    name: str
    publishers: GroupedPublishers
    is_dealt: bool


WORKLOADS = (
    Workload("singly (figures 4, 5)", GroupedPublishers(count=PUBLISHERS), False),
    Workload("in tens (figure 5)", GroupedPublishers(count=PUBLISHERS, batch=10), False),
    Workload("groups of 20, blind (figure 7)", GroupedPublishers(count=PUBLISHERS, group=20), False),
    Workload("groups of 20, dealt (figure 7)", GroupedPublishers(count=PUBLISHERS, group=20), True),
)


def splits(workload: Workload, costs: DeliveryCosts, seconds: float, run: int) -> list[Split]:
    """Over 1 to 6 hubs, with the members of a group at different hubs or wherever chance has them."""
    topic = LimitedTopic(workload.publishers, seconds, 1_000 + run, costs=costs)
    numbers = np.arange(PUBLISHERS)
    order = numbers if workload.is_dealt else np.random.default_rng([1, run]).permutation(numbers)
    return [topic.seated(order % hubs, is_compared=True) for hubs in range(1, HUBS + 1)]


def text(values: list[float]) -> str:
    return f"{1e3 * fmean(values):9.2f} ± {1e3 * stdev(values):6.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--chunk-us", type=float, default=19.2)
    parser.add_argument("--message-us", type=float, default=0.18)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--runs", type=int, default=10)
    options = parser.parse_args()
    costs = DeliveryCosts(1e-6 * options.chunk_us, 1e-6 * options.message_us)
    print(
        f"a hub carries {costs.capacity_per_s(1):,.0f} messages/s singly, {costs.capacity_per_s(10):,.0f} in tens"
    )
    for workload in WORKLOADS:
        runs = [splits(workload, costs, options.seconds, run) for run in range(options.runs)]
        print(workload.name)
        for at in range(HUBS):
            seen = [run[at] for run in runs]
            latency, penalty = [one.latency_s for one in seen], [one.penalty_s for one in seen]
            print(
                f"  {at + 1} hubs: p99 {text(latency)} ms, of that the split {text(penalty)} ms", flush=True
            )


if __name__ == "__main__":
    main()
