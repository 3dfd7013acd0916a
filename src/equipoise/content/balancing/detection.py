"""Detect that a hub or cluster is overloaded, or that its load differs too much from another's ([1], 3.2).

Two steps: metrics above a threshold of their own; if there are none, metrics that differ from a neighbour's. Both give
a
list of hubs for a request, each with the metric to balance, the largest difference first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from equipoise.content.balancing.load import EdgeLoad, delay_difference
from equipoise.content.balancing.pair_estimate import BalancedMetric
from equipoise.content.balancing.settings import BalancingSettings, LoadMetric

__all__ = [
    "Detection",
    "DetectionTriggers",
    "OffloadRequest",
    "detect",
    "exceeds",
    "is_full",
    "is_steady",
    "triggers_of",
]


class DetectionTriggers(NamedTuple):
    """The differences from which two hubs, or two clusters, are not balanced."""

    ratio: float
    delay: float


class OffloadRequest(NamedTuple):
    """Request a session about this metric from this hub."""

    hub: str
    metric: BalancedMetric
    difference: float
    is_overloaded: bool


class Detection(NamedTuple):
    """The result of one detection."""

    # A metric is above its lower threshold: the hub accepts no subscribers.
    is_unavailable: bool
    # A metric is above its higher threshold: `requests` are to reduce it.
    is_overloaded: bool
    requests: tuple[OffloadRequest, ...]
    # The neighbours without a difference above a trigger.
    balanced: frozenset[str]


def triggers_of(settings: BalancingSettings, *, is_global: bool = False) -> DetectionTriggers:
    if is_global:
        return DetectionTriggers(settings.global_ratio_trigger, settings.global_delay_trigger)
    return DetectionTriggers(settings.local_ratio_trigger, settings.local_delay_trigger)


def detect(
    own: EdgeLoad,
    neighbours: Mapping[str, EdgeLoad],
    available: Iterable[str],
    settings: BalancingSettings,
    triggers: DetectionTriggers,
) -> Detection:
    """`available`: the neighbours whose last PIE had the status OK. The others are compared, and get no request."""
    asked = [hub for hub in available if hub in neighbours]
    overloads = _overloads(own, settings)
    if overloads:
        requests = [
            OffloadRequest(hub, metric, _differences(own, neighbours[hub], settings)[metric], True)
            for hub in asked
            for metric in overloads
        ]
    else:
        requests = [
            OffloadRequest(hub, metric, difference, False)
            for hub in asked
            for metric, difference in _differences(own, neighbours[hub], settings).items()
            if exceeds(own, neighbours[hub], metric, settings, triggers)
        ]
    requests.sort(key=lambda request: (-request.difference, request.hub))
    balanced = frozenset(
        hub for hub, load in neighbours.items() if _is_balanced(own, load, settings, triggers)
    )
    return Detection(is_full(own, settings), bool(overloads), tuple(requests), balanced)


def exceeds(
    own: EdgeLoad,
    other: EdgeLoad,
    metric: BalancedMetric,
    settings: BalancingSettings,
    triggers: DetectionTriggers,
) -> bool:
    """Whether this hub has so much more of the metric than the other that a session about it may begin."""
    return _differences(own, other, settings)[metric] > _trigger(metric, triggers, settings)


def is_steady(before: EdgeLoad, now: EdgeLoad, settings: BalancingSettings) -> bool:
    """Whether no metric has changed by more than the stabilising ratio."""
    return all(
        abs(change) <= settings.stabilize_ratio for change in _differences(now, before, settings).values()
    )


def _overloads(own: EdgeLoad, settings: BalancingSettings) -> list[BalancedMetric]:
    """The metrics to balance against an overload (Table 2 of [1])."""
    found = []
    if own.output_ratio > settings.output.higher:
        found.append(BalancedMetric.OUTPUT)
    if (
        own.input_ratio > settings.input.higher
        or own.cpu_ratio > settings.cpu.higher
        or own.memory_ratio > settings.memory.higher
    ):
        found.append(BalancedMetric.MATCH)
    return found


def is_full(own: EdgeLoad, settings: BalancingSettings) -> bool:
    """Whether a metric is above its lower threshold: then a hub accepts no subscribers."""
    return (
        own.input_ratio > settings.input.lower
        or own.output_ratio > settings.output.lower
        or own.cpu_ratio > settings.cpu.lower
        or own.memory_ratio > settings.memory.lower
    )


def _differences(own: EdgeLoad, other: EdgeLoad, settings: BalancingSettings) -> dict[BalancedMetric, float]:
    norm_s = settings.delay_norm_s
    delay = delay_difference(own.delay_s, other.delay_s, norm_s)
    if settings.metric is LoadMetric.QUEUEING:
        inward = delay_difference(own.input_wait_s, other.input_wait_s, norm_s)
        outward = delay_difference(own.output_wait_s, other.output_wait_s, norm_s)
    else:
        inward = own.input_ratio - other.input_ratio
        outward = own.output_ratio - other.output_ratio
    return {BalancedMetric.INPUT: inward, BalancedMetric.MATCH: delay, BalancedMetric.OUTPUT: outward}


def _trigger(metric: BalancedMetric, triggers: DetectionTriggers, settings: BalancingSettings) -> float:
    is_ratio = metric is not BalancedMetric.MATCH and settings.metric is LoadMetric.RATIO
    return triggers.ratio if is_ratio else triggers.delay


def _is_balanced(
    own: EdgeLoad, other: EdgeLoad, settings: BalancingSettings, triggers: DetectionTriggers
) -> bool:
    return all(
        abs(difference) <= _trigger(metric, triggers, settings)
        for metric, difference in _differences(own, other, settings).items()
    )
