"""Choose the split of a limited topic by replaying its arrivals for every number of hubs and several deals.

A trial is a number of hubs and a deal of publishers to them. Publishers are dealt in an order in which neighbours fire
together: by the groups that they have stated, or as found from the arrivals, with several windows; and blindly, to show
what the order is worth. Trials are independent of each other: they run wherever there is a processor.

Seconds of arrivals seldom empty a bucket, and while none is empty every split looks as good as none. So each trial is
replayed a second time with the burst that these arrivals alone would be given (`smallest_depth`): then messages that
fire together do empty it, and a number of hubs that divides them badly shows.

Always true: the same arrivals give the same trials; what is chosen is a number of hubs that was tried.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from equipoise.limits.firing_order import firing_order
from equipoise.limits.fitting import MARGIN
from equipoise.limits.replay import ArrivalTrace, DeliveryCosts, replay, smallest_depth
from equipoise.limits.shares import Envelope

__all__ = [
    "ARRIVALS_MIN",
    "BLIND",
    "STATED",
    "ChosenSplit",
    "SplitTrial",
    "TrialLatency",
    "choose_split",
    "found_order",
    "replay_trial",
    "split_orders",
    "split_trials",
    "trace_of",
]

Ints = NDArray[np.int64]

BLIND, STATED = "blind", "stated groups"
# Fewer messages say nothing of a 99th percentile: ten of them lie above it.
ARRIVALS_MIN = 1_000
_BLIND_SEED = 1


class SplitTrial(NamedTuple):
    """Publisher i sits at hub `seats[i]` of so many."""

    hubs: int
    order: str
    seats: Ints


class TrialLatency(NamedTuple):
    """What a trial came to at the quantile that was asked for; undivided: with the same seats behind one bucket."""

    hubs: int
    order: str
    latency_s: float
    undivided_s: float
    # With the burst that the arrivals would be given by themselves.
    tight_s: float


class ChosenSplit(NamedTuple):
    """The smallest number of hubs that keeps the limit as `choose_split` says; else the best there is."""

    hubs: int
    order: str
    latency_s: float
    undivided_s: float
    is_within: bool


def trace_of(times_s: Sequence[float], publishers: Sequence[int], messages: Sequence[int]) -> ArrivalTrace:
    """Of runs: when each came, from which publisher (by index), and how many messages it had."""
    counts = np.asarray(messages, np.int64)
    begins = np.zeros(int(counts.sum()), np.bool_)
    if len(counts):
        begins[np.cumsum(counts) - counts] = True
    return ArrivalTrace(
        np.repeat(np.asarray(times_s, np.float64), counts),
        np.repeat(np.asarray(publishers, np.int64), counts),
        begins,
    )


def found_order(window_s: float, trace: ArrivalTrace, count: int) -> Ints:
    """The `count` publishers in an order in which neighbours fire together, found with this window."""
    times_s, publishers = trace.times_s[trace.begins_chunk], trace.publishers[trace.begins_chunk]
    return firing_order(times_s, publishers, count, window_s)


def split_orders(groups: Sequence[str], found: Mapping[float, Ints]) -> dict[str, Ints]:
    """By name, the orders to deal publishers in: as found, by window; by what each has stated, if any has; blindly.

    `groups`: what each publisher has stated; empty where it has not.
    """
    count = len(groups)
    orders = {BLIND: np.random.default_rng(_BLIND_SEED).permutation(count)}
    orders |= {f"found, {1e3 * window_s:g} ms": order for window_s, order in found.items()}
    if any(groups):
        orders[STATED] = np.array(sorted(range(count), key=lambda i: (groups[i], i)), np.int64)
    return orders


def split_trials(orders: Mapping[str, Ints], hubs_max: int) -> list[SplitTrial]:
    """Every order with every number of hubs."""
    count = len(orders[BLIND])
    return [
        SplitTrial(hubs, name, _dealt(order, hubs))
        for hubs in range(1, min(hubs_max, count) + 1)
        for name, order in orders.items()
    ]


def _dealt(order: Ints, hubs: int) -> Ints:
    seats = np.empty(len(order), np.int64)
    seats[order] = np.arange(len(order)) % hubs
    return seats


def replay_trial(
    trial: SplitTrial, trace: ArrivalTrace, envelope: Envelope, costs: DeliveryCosts, quantile: float
) -> TrialLatency:
    """Replay the arrivals with these seats."""
    rate_per_s = envelope.rate_per_s

    def latency_s(depth: float, *, is_divided: bool = True) -> float:
        return replay(
            trace,
            trial.seats,
            trial.hubs,
            rate_per_s=rate_per_s,
            depth=depth,
            costs=costs,
            is_divided=is_divided,
        ).quantile_s(quantile)

    return TrialLatency(
        trial.hubs,
        trial.order,
        latency_s(envelope.burst),
        latency_s(envelope.burst, is_divided=False),
        latency_s(smallest_depth(trace.times_s, rate_per_s, quantile)),
    )


def choose_split(
    latencies: Iterable[TrialLatency], limit_s: float, *, margin: float = MARGIN, orders: str = ""
) -> ChosenSplit:
    """The smallest number of hubs, and its best deal, that stays below the limit less the margin. `orders`: only these.

    It keeps the limit with the tight burst, too, if any number does, and in at least two orders if several were tried:
    where one of them does, it is by luck. Where the envelope breaks the limit with any number, since its burst is too
    small, the tight burst alone decides: hubs are there for what is not the bucket's.
    """
    tried = [one for one in latencies if orders in one.order and one.order != BLIND]
    target_s = limit_s * (1 - margin)
    keeping = Counter(one.hubs for one in tried if one.tight_s <= limit_s)
    sound = {hubs for hubs in keeping if keeping[hubs] >= min(2, sum(one.hubs == hubs for one in tried))}
    rules: tuple[Callable[[TrialLatency], bool], ...] = (
        lambda one: one.latency_s <= target_s and one.tight_s <= limit_s and one.hubs in sound,
        lambda one: one.latency_s <= target_s,
        lambda one: one.tight_s <= limit_s and one.hubs in sound,
    )
    kept = next((found for rule in rules if (found := [one for one in tried if rule(one)])), None)
    if kept is None:
        chosen = min(tried, key=lambda one: (one.latency_s, one.hubs))
    else:
        chosen = min(kept, key=lambda one: (one.hubs, max(one.latency_s, one.tight_s), one.latency_s))
    return ChosenSplit(
        chosen.hubs, chosen.order, chosen.latency_s, chosen.undivided_s, chosen.latency_s <= limit_s
    )
