"""Topics against their latency limits: measured, estimated, allowed.

Always true: `is_held` is None without a limit or a latency; the measured latency, at the quantile of the limit, has
priority over E(t), and E(t) over the estimate for the home, W(t, b), as for the planner.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from equipoise.model import Specs, TopicSpec
from equipoise.plan.latency import CentroidEstimate, measured_at, present_latency_s
from equipoise.view import View

__all__ = ["NO_STATUS", "LatencyStatus", "noted_topics", "standings"]

Floats = NDArray[np.float64]

# Topics of each kind whose specs are read for one picture: the slowest and the busiest.
_LOOKED_AT_MAX = 1_000


class LatencyStatus(NamedTuple):
    """Of one topic; None if unknown, or without a limit."""

    # E(t), by coordinates; and W(t, b) at the home.
    worst_s: float | None = None
    expected_s: float | None = None
    limit_ms: float | None = None
    # The limit's share of messages; and the latency measured at the next higher quantile of views.
    quantile: float | None = None
    measured_s: float | None = None

    @property
    def is_held(self) -> bool | None:
        known = [found for found in (self.measured_s, self.worst_s, self.expected_s) if found is not None]
        return None if not known or self.limit_ms is None else 1_000 * known[0] <= self.limit_ms


NO_STATUS = LatencyStatus()


def standings(
    view: View, topics: Sequence[int], homes: Sequence[Sequence[str]], specs: Sequence[TopicSpec | None]
) -> list[LatencyStatus]:
    """Of these topics, each with its homes and its spec."""
    rows = np.array(topics, np.int64)
    durable = [
        topic for topic, spec in zip(topics, specs, strict=True) if spec is not None and spec.durability
    ]
    estimate = CentroidEstimate(view, durable=durable)
    is_located = estimate.is_located[rows] if len(rows) else rows
    expected = estimate.worst_s(rows) if len(rows) and bool(is_located.any()) else None
    found = []
    for at, topic in enumerate(topics):
        hubs = [view.hub_index[home] for home in homes[at] if home in view.hub_index]
        known = expected is not None and bool(is_located[at]) and bool(hubs)
        worst = max((float(expected[at][hub]) for hub in hubs), default=np.inf) if known else np.inf  # type: ignore[index]  # Known.
        estimated_s = _known(float(view.topics.latency_s_worst[topic]))
        found.append(LatencyStatus(estimated_s, _known(worst), *_limited(view, topic, specs[at])))
    return found


def _limited(
    view: View, topic: int, spec: TopicSpec | None
) -> tuple[float | None, float | None, float | None]:
    if spec is None or spec.latency_ms is None:
        return None, None, None
    return spec.latency_ms, spec.quantile, _known(float(measured_at(view.topics, spec.quantile)[topic]))


def noted_topics(view: View, specs: Specs, count: int) -> list[int]:
    """The topics of interest: above their limits, then with a limit, then the busiest."""
    topics = view.topics
    slow_s = np.nan_to_num(np.fmax(topics.latency_s_max, topics.latency_s_worst), nan=-1.0)
    looked_at = list(dict.fromkeys([*_largest(topics.out_bytes_per_s), *_largest(slow_s)]))
    limited = {
        topic: spec
        for topic in looked_at
        if (spec := specs.of(topics.names[topic])) is not None and spec.latency_ms is not None
    }
    present_s = present_latency_s(topics, {topic: spec.quantile for topic, spec in limited.items()})
    ranked = []
    for order, topic in enumerate(looked_at):
        found = limited.get(topic)
        limit_ms = None if found is None else found.latency_ms
        # An unknown latency breaks no limit.
        rank = 2 if limit_ms is None else int(not 1_000 * present_s[topic] > limit_ms)
        ranked.append((rank, order, topic))
    return [topic for _, _, topic in sorted(ranked)[:count]]


def _largest(values: Floats) -> list[int]:
    """The indices of the largest values, in descending order."""
    rows = np.arange(len(values))
    if len(values) > _LOOKED_AT_MAX:
        # Most of a hundred thousand need no sorting.
        rows = np.sort(np.argpartition(-values, _LOOKED_AT_MAX)[:_LOOKED_AT_MAX])
    found: list[int] = rows[np.argsort(-values[rows], kind="stable")].tolist()
    return found


def _known(number: float) -> float | None:
    return number if np.isfinite(number) else None
