"""One limited topic in the model of SRTM's testbed: arrivals, envelope, and the latency of any split.

The paper states no costs. Hubs here take 9.3 µs for a chunk and 7.4 µs for a message: 60,000 messages a second singly,
120,000 in tens. Of four tried capacities these are the closest to its figure 4 and Table I. The envelope follows the
paper: a rate of 1.1 times the topic's, and the smallest depth with which 99 % of the messages of the trace are not
delayed. Latency consists of waiting for tokens, queueing and processing; networks are not modelled.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from equipoise.lab.experiments.experiment import Parameters
from equipoise.lab.workload.grouped_publishers import GroupedPublishers
from equipoise.limits.distribution import HubRoom, Publisher, SplitPolicy, distribute
from equipoise.limits.firing_order import WINDOWS_S, firing_order
from equipoise.limits.fitting import Fit, best_fit
from equipoise.limits.replay import ArrivalTrace, DeliveryCosts, Replayed, replay, smallest_depth

__all__ = [
    "CAPACITY_PER_S",
    "COSTS",
    "HUBS",
    "LIMIT_S",
    "MODEL_NOTE",
    "QUANTILE",
    "RATE_MARGIN",
    "LimitedTopic",
    "Mean",
    "Split",
    "SplitScale",
    "choose",
    "mean_of",
    "split_parameters",
]

Ints = NDArray[np.int64]

COSTS = DeliveryCosts(chunk_s=9.3e-6, message_s=7.4e-6)
HUBS = 6
# Messages per second of a hub, for capacity counted in messages. In figure 6 a topic of 80,000 a second needs hubs 1 to
# 3, and 60,000 need two: the paper's hubs carry 60,000 to 65,000.
CAPACITY_PER_S = 62_000.0
LIMIT_S = 0.001
QUANTILE = 0.99
RATE_MARGIN = 1.1
# Length of the trace from which an order is found.
RECORDED_S = 10.0
# The share of a processor that a fit by CPU may fill.
_UTILISATION_MAX = 0.9


@dataclass(frozen=True, slots=True)
class Split:
    """A topic split over hubs: latencies in seconds, of all messages and of the worst hub's."""

    hubs: int
    latency_s: float
    worst_hub_s: float
    # With the same seats and one bucket; NaN if not requested, because it needs a separate replay.
    undivided_s: float = math.nan

    @property
    def penalty_s(self) -> float:
        """The extra latency of splitting the bucket."""
        return self.latency_s - self.undivided_s


class LimitedTopic:
    """A topic of one trace, at hubs with or without other load. Deterministic for a seed.

    Its depth is profiled on that trace, or on another one of the same publishers.
    """

    def __init__(
        self,
        workload: GroupedPublishers,
        seconds: float,
        seed: int,
        *,
        background_per_s: Sequence[float] = (),
        costs: DeliveryCosts = COSTS,
        is_profiled_elsewhere: bool = False,
    ) -> None:
        self.workload, self.costs, self._seed = workload, costs, seed
        self.arrivals = workload.arrivals(seconds, np.random.default_rng([seed, 0]))
        self.rate_per_s = RATE_MARGIN * workload.topic_rate_per_s
        profiled = self.arrivals
        if is_profiled_elsewhere:
            profiled = workload.arrivals(seconds, np.random.default_rng([seed, 3]))
        self.depth = smallest_depth(profiled.times_s, self.rate_per_s, QUANTILE)
        loads = list(background_per_s) or [0.0] * HUBS
        self._loads = loads
        self._background: list[ArrivalTrace | None] = [None] * HUBS
        self._seconds = seconds
        # By the number of hubs.
        self._best_found: dict[int, Split] = {}

    def rooms(self) -> list[HubRoom]:
        """Free capacity by message counts, as in the paper."""
        return [HubRoom(str(hub), CAPACITY_PER_S, load) for hub, load in enumerate(self._loads)]

    def rooms_by_cpu(self) -> list[HubRoom]:
        """Free capacity in messages of this topic, by the free processor time."""
        batch = self.workload.batch
        capacity = self.costs.capacity_per_s(batch) * _UTILISATION_MAX
        in_tens = self.costs.capacity_per_s(10)
        return [
            HubRoom(str(hub), capacity, load / in_tens * self.costs.capacity_per_s(batch))
            for hub, load in enumerate(self._loads)
        ]

    def split(
        self,
        policy: SplitPolicy,
        count: int | None,
        rooms: Sequence[HubRoom] | None = None,
        *,
        is_compared: bool = False,
    ) -> Split:
        """Split the topic with a policy over `count` hubs, or over as many as the policy chooses."""
        rng = np.random.default_rng([self._seed, 1])
        publishers = [
            Publisher(str(i), self.workload.rate_per_s, f"{self.workload.group_of(i):06}")
            for i in range(self.workload.count)
        ]

        def shuffle(ordered: list[Publisher]) -> None:
            ordered[:] = [ordered[i] for i in rng.permutation(len(ordered))]

        found = distribute(policy, publishers, rooms or self.rooms(), shuffle=shuffle, count=count)
        seats = np.array([int(found.seats[publisher.name]) for publisher in publishers], np.int64)
        return self.seated(seats, is_compared=is_compared)

    def dealt_by_order(self, order: Ints, count: int) -> Split:
        """Split over the first `count` hubs, with publishers assigned in this order."""
        seats = np.empty(self.workload.count, np.int64)
        seats[order] = np.arange(self.workload.count) % count
        return self.seated(seats)

    def seated(self, seats: Ints, *, is_compared: bool = False) -> Split:
        """The split with these seats. `is_compared`: also with one undivided bucket."""
        divided = self._replay(seats, is_divided=True)
        undivided_s = math.nan
        if is_compared:
            undivided_s = self._replay(seats, is_divided=False).quantile_s(QUANTILE)
        return Split(
            len(np.unique(seats)), divided.quantile_s(QUANTILE), max(divided.by_hub_s(QUANTILE)), undivided_s
        )

    def latencies_s(self, seats: Ints, quantiles: Iterable[float]) -> list[float]:
        replayed = self._replay(seats, is_divided=True)
        return [replayed.quantile_s(quantile) for quantile in quantiles]

    def _replay(self, seats: Ints, *, is_divided: bool) -> Replayed:
        for hub in np.unique(seats).tolist():
            if self._loads[hub] and self._background[hub] is None:
                self._background[hub] = self._other_messages(hub)
        return replay(
            self.arrivals,
            seats,
            HUBS,
            rate_per_s=self.rate_per_s,
            depth=self.depth,
            costs=self.costs,
            background=self._background,
            is_divided=is_divided,
        )

    def _other_messages(self, hub: int) -> ArrivalTrace:
        """Other load of the hub: Poisson, in batches of ten, as in figure 6."""
        other = GroupedPublishers(count=1, rate_per_s=self._loads[hub], batch=10)
        return other.arrivals(self._seconds, np.random.default_rng([self._seed, 2, hub]))

    @cached_property
    def found_orders(self) -> list[Ints]:
        """Orders found from the first seconds of arrivals, one per window."""
        used = self.arrivals.begins_chunk & (self.arrivals.times_s < RECORDED_S)
        times_s, publishers = self.arrivals.times_s[used], self.arrivals.publishers[used]
        return [firing_order(times_s, publishers, self.workload.count, window) for window in WINDOWS_S]

    def fit_found(self, margin: float) -> Fit:
        """The number of hubs that this trace needs, with the best found order for each number."""
        return best_fit(
            {hubs: self.best_found(hubs).latency_s for hubs in range(1, HUBS + 1)}, LIMIT_S, margin
        )

    def best_found(self, count: int) -> Split:
        """The split with the best found order."""
        if count not in self._best_found:
            dealt = (self.dealt_by_order(order, count) for order in self.found_orders)
            self._best_found[count] = min(dealt, key=_latency)
        return self._best_found[count]


def _latency(split: Split) -> float:
    return split.latency_s


def choose(splits: Callable[[int], Split], first: int, limit_s: float = LIMIT_S) -> Split:
    """The split with the fewest hubs, at least `first`, that keeps the limit; else the one with the lowest latency."""
    tried = []
    for count in range(first, HUBS + 1):
        tried.append(splits(count))
        if tried[-1].latency_s <= limit_s:
            break
    fit: Fit = best_fit({at: split.latency_s for at, split in enumerate(tried)}, limit_s, margin=0.0)
    return tried[fit.hubs]


@dataclass(frozen=True, slots=True)
class SplitScale:
    """The varied parameters, the duration and the number of runs."""

    publishers: tuple[int, ...]
    seconds: float
    runs: int


def split_parameters(scale: SplitScale) -> Parameters:
    """Parameters of all experiments of the model."""
    return (
        ("hubs", f"{HUBS}; a chunk takes {1e6 * COSTS.chunk_s:g} µs, a message {1e6 * COSTS.message_s:g} µs"),
        (
            "capacity",
            f"{COSTS.capacity_per_s(1):,.0f} messages/s singly, {COSTS.capacity_per_s(10):,.0f} in tens; "
            f"{CAPACITY_PER_S:,.0f} where room is counted in messages",
        ),
        ("envelope", "1.1 × the rate; the least depth with 99 % of the trace not delayed"),
        ("limit", f"{1e3 * LIMIT_S:g} ms at the 99th percentile"),
        ("runs", f"{scale.runs} of {scale.seconds:g} s, the first tenth left out"),
    )


MODEL_NOTE = (
    "A model (equipoise.limits.replay): buckets with the hub's arithmetic and a processor as a queue; no network, no "
    "scheduler. The paper states no processing costs; these are a fit to its figure 4 and Table I."
)


@dataclass(frozen=True, slots=True)
class Mean:
    """Mean and standard deviation over runs."""

    mean: float
    deviation: float

    def text(self, factor: float = 1e3, unit: str = "ms") -> str:
        return f"{self.mean * factor:.2f} ± {self.deviation * factor:.2f} {unit}".strip()


def mean_of(values: Sequence[float]) -> Mean:
    return Mean(statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else 0.0)
