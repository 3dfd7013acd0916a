"""Distribute a limited topic over hubs: their number, their shares and the publishers of each.

A split bucket delays more than an undivided one (Proposition 1 of the paper behind rate envelopes). Three principles
keep that small: as few hubs as can carry the topic (concentration), the smallest share as large as possible (max-min),
and publishers that fire together at different hubs (correlation). The four policies add them one by one.

Room is in messages per second: the capacity of a hub, by its profile, less its present load.

Always true of quotas:
    they sum up to the topic's rate, unless the hubs have less room together: then each is filled to its room;
    no hub gets more than its room, except by the policy that uses all hubs alike.
Always true of an assignment:
    every publisher has exactly one seat;
    of any run of neighbours in the order, each hub has its share, within one publisher.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

__all__ = [
    "Distribution",
    "HubRoom",
    "Publisher",
    "SplitPolicy",
    "deal",
    "distribute",
    "even_loads",
    "fewest_hubs",
    "largest_minimum",
]


class SplitPolicy(StrEnum):
    """How a topic is split, from the usual way to the most effective one."""

    # All hubs, with equal loads as the result.
    LOAD_BALANCING = "load-balancing"
    # The fewest hubs, with equal loads as the result.
    CONCENTRATION = "concentration"
    # The fewest hubs, with the smallest share as large as room allows.
    MAX_MIN = "max-min"
    # The same shares, with publishers assigned in an order in which neighbours fire together.
    CORRELATION = "correlation"


class HubRoom(NamedTuple):
    """A hub, its capacity and its load in messages per second."""

    hub: str
    capacity_per_s: float
    load_per_s: float = 0.0

    @property
    def room_per_s(self) -> float:
        return max(0.0, self.capacity_per_s - self.load_per_s)


class Publisher(NamedTuple):
    """A publisher of the topic; publishers of one group fire together."""

    name: str
    rate_per_s: float
    group: str = ""


class Distribution(NamedTuple):
    """Messages per second of each hub, the seat of each publisher, and the rate for which no hub has room."""

    quotas_per_s: Mapping[str, float]
    seats: Mapping[str, str]
    unplaced_per_s: float = 0.0


Shuffle = Callable[[list[Publisher]], None]


def distribute(
    policy: SplitPolicy,
    publishers: Sequence[Publisher],
    hubs: Sequence[HubRoom],
    *,
    shuffle: Shuffle,
    count: int | None = None,
) -> Distribution:
    """Split a topic over `count` hubs, or over the policy's number. `shuffle` orders publishers without an order."""
    rate_per_s = sum(publisher.rate_per_s for publisher in publishers)
    quotas = _quotas(policy, rate_per_s, hubs, count)
    ordered = list(publishers)
    shuffle(ordered)
    if policy is SplitPolicy.CORRELATION:
        ordered.sort(key=lambda publisher: publisher.group)
    placed = sum(quotas.values())
    return Distribution(quotas, deal(ordered, quotas), max(0.0, rate_per_s - placed))


def _quotas(
    policy: SplitPolicy, rate_per_s: float, hubs: Sequence[HubRoom], count: int | None
) -> dict[str, float]:
    if policy is SplitPolicy.LOAD_BALANCING:
        return even_loads(rate_per_s, hubs)
    roomy = sorted(hubs, key=lambda hub: -hub.room_per_s)
    chosen = roomy[: count if count is not None else fewest_hubs(rate_per_s, hubs)]
    if policy is SplitPolicy.CONCENTRATION:
        return even_loads(rate_per_s, chosen)
    return largest_minimum(rate_per_s, chosen)


def fewest_hubs(rate_per_s: float, hubs: Sequence[HubRoom]) -> int:
    """The least number of hubs with enough room together, those with most room first; all if that is not enough."""
    left = rate_per_s
    for count, room in enumerate(sorted((hub.room_per_s for hub in hubs), reverse=True), 1):
        left -= room
        if left <= 0:
            return count
    return len(hubs)


def even_loads(rate_per_s: float, hubs: Sequence[HubRoom]) -> dict[str, float]:
    """Quotas that make the loads of the hubs equal, or as equal as their present loads allow."""
    quotas = dict.fromkeys((hub.hub for hub in hubs), 0.0)
    by_load = sorted(hubs, key=lambda hub: hub.load_per_s)
    for count in range(len(by_load), 0, -1):
        lowest = by_load[:count]
        level = (rate_per_s + sum(hub.load_per_s for hub in lowest)) / count
        if level >= lowest[-1].load_per_s:
            quotas.update((hub.hub, level - hub.load_per_s) for hub in lowest)
            break
    return quotas


def largest_minimum(rate_per_s: float, hubs: Sequence[HubRoom]) -> dict[str, float]:
    """Quotas of which the smallest is as large as rooms allow: equal parts, then equal parts of the rest."""
    quotas = dict.fromkeys((hub.hub for hub in hubs), 0.0)
    left, open_hubs = rate_per_s, sorted(hubs, key=lambda hub: hub.room_per_s)
    # From the fullest hub on: the part of its equal share for which it has no room is divided among the others.
    while open_hubs:
        hub = open_hubs.pop(0)
        quota = min(hub.room_per_s, left / (len(open_hubs) + 1))
        quotas[hub.hub] = quota
        left -= quota
    return quotas


def deal(ordered: Sequence[Publisher], quotas: Mapping[str, float]) -> dict[str, str]:
    """Assign publishers in order, each to the hub that lacks most of its share of the rate assigned so far."""
    total = sum(quotas.values())
    if not total:
        return dict.fromkeys((publisher.name for publisher in ordered), next(iter(quotas), ""))
    parts = {hub: quota / total for hub, quota in quotas.items() if quota > 0}
    dealt = dict.fromkeys(parts, 0.0)
    passed = 0.0
    seats: dict[str, str] = {}
    for publisher in ordered:
        passed += publisher.rate_per_s
        hub = max(parts, key=lambda name: parts[name] * passed - dealt[name])
        dealt[hub] += publisher.rate_per_s
        seats[publisher.name] = hub
    return seats
