"""How topics stand to their latency limits: what they take, what they would take where they live, what they may.

Always true: `is_held` is None unless there is a limit and a latency to hold against it; what was measured, E(t), comes
before what is expected of the home, W(t, b), as it does for the planner.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from equipoise.model import Specs
from equipoise.plan.latency import CentroidEstimate
from equipoise.view import View

__all__ = ["LatencyStatus", "noted_topics", "standings"]

Floats = NDArray[np.float64]

# Topics of each kind that are looked up in the specs for one picture: the slowest and the busiest.
_LOOKED_AT_MAX = 1_000


class LatencyStatus(NamedTuple):
    """Of one topic; None where it is not known, or there is no limit."""

    worst_s: float | None
    expected_s: float | None
    limit_ms: float | None

    @property
    def is_held(self) -> bool | None:
        found = self.worst_s if self.worst_s is not None else self.expected_s
        return None if found is None or self.limit_ms is None else 1_000 * found <= self.limit_ms


def standings(
    view: View, topics: Sequence[int], homes: Sequence[Sequence[str]], limits_ms: Sequence[float | None]
) -> list[LatencyStatus]:
    """Of these topics, each with its homes and its limit."""
    rows = np.array(topics, np.int64)
    estimate = CentroidEstimate(view)
    is_located = estimate.is_located[rows] if len(rows) else rows
    expected = estimate.worst_s(rows) if len(rows) and bool(is_located.any()) else None
    found = []
    for at, topic in enumerate(topics):
        hubs = [view.hub_index[home] for home in homes[at] if home in view.hub_index]
        known = expected is not None and bool(is_located[at]) and bool(hubs)
        worst = max((float(expected[at][hub]) for hub in hubs), default=np.inf) if known else np.inf  # type: ignore[index]  # Known.
        found.append(
            LatencyStatus(_known(float(view.topics.latency_s_worst[topic])), _known(worst), limits_ms[at])
        )
    return found


def noted_topics(view: View, specs: Specs, count: int) -> list[int]:
    """The topics whose latency people want to see: above their limits, then under one, then the busiest."""
    topics = view.topics
    slow_s = np.nan_to_num(topics.latency_s_worst, nan=-1.0)
    looked_at = [*_largest(topics.out_bytes_per_s), *_largest(slow_s)]
    ranked = []
    for order, topic in enumerate(dict.fromkeys(looked_at)):
        spec = specs.of(topics.names[topic])
        limit_ms = None if spec is None else spec.latency_ms
        rank = 2 if limit_ms is None else int(1_000 * slow_s[topic] <= limit_ms)
        ranked.append((rank, order, topic))
    return [topic for _, _, topic in sorted(ranked)[:count]]


def _largest(values: Floats) -> list[int]:
    """Where the largest values are, the very largest first."""
    rows = np.arange(len(values))
    if len(values) > _LOOKED_AT_MAX:
        # Most of a hundred thousand need not be brought into order.
        rows = np.sort(np.argpartition(-values, _LOOKED_AT_MAX)[:_LOOKED_AT_MAX])
    found: list[int] = rows[np.argsort(-values[rows], kind="stable")].tolist()
    return found


def _known(number: float) -> float | None:
    return number if np.isfinite(number) else None
