"""Choose the split of a limited topic by replaying its arrivals for every number of hubs and several assignments.

A trial is a number of hubs and an assignment of publishers to them. Publishers are assigned in an order in which
neighbours fire together: by the groups that they state, or as computed from the arrivals, with several windows; and in
random order, to show the gain of the order. Trials are independent of each other and run on any processor.

Seconds of arrivals seldom empty a bucket, and while none is empty every split has the same delays as no split. So each
trial is replayed a second time with the burst that fits these arrivals alone (`smallest_depth`): then messages that
fire together do empty it, and a number of hubs that divides them badly shows higher delays.

Always true: the same arrivals give the same trials; the chosen number of hubs is one of the trials'.
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
# Fewer messages do not determine a 99th percentile: ten of these are above it.
ARRIVALS_MIN = 1_000
_BLIND_SEED = 1


class SplitTrial(NamedTuple):
    """Publisher i is assigned to hub `seats[i]` of this many hubs."""

    hubs: int
    order: str
    seats: Ints


class TrialLatency(NamedTuple):
    """The latencies of a trial at the given quantile; undivided: with the same assignment behind one bucket."""

    hubs: int
    order: str
    latency_s: float
    undivided_s: float
    # With the burst that fits these arrivals alone.
    tight_s: float


class ChosenSplit(NamedTuple):
    """The smallest number of hubs that keeps the limit, by the rules of `choose_split`; else the best one."""

    hubs: int
    order: str
    latency_s: float
    undivided_s: float
    is_within: bool


def trace_of(times_s: Sequence[float], publishers: Sequence[int], messages: Sequence[int]) -> ArrivalTrace:
    """From runs: the time of each, its publisher (by index), and its number of messages."""
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
    """The `count` publishers in an order in which neighbours fire together, computed with this window."""
    times_s, publishers = trace.times_s[trace.begins_chunk], trace.publishers[trace.begins_chunk]
    return firing_order(times_s, publishers, count, window_s)


def split_orders(groups: Sequence[str], found: Mapping[float, Ints]) -> dict[str, Ints]:
    """By name, the orders of publishers: as computed, by window; by stated groups, if there are any; random.

    `groups`: the stated group of each publisher; empty: none.
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
    """The smallest number of hubs, with its best order, that stays below the limit less the margin. `orders`: only
    these.

    It has to keep the limit with the tight burst, too, if any number does, and in at least two orders if several were
    tried: one order alone may keep it by chance. If the envelope exceeds the limit with every number, because its burst
    is too small, the tight burst alone decides: more hubs help only against delays that the bucket does not cause.
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
