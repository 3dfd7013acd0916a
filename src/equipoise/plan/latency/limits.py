"""Which topics have a latency limit, whether it holds, and which hubs would keep it.

A step that moves a topic for another reason, load above all, asks here: a move never breaks a limit that held, and
where a limit is broken already no move makes it worse. What is not known is not judged: a topic none of whose clients
has a known place may be anywhere.

What a topic takes now is judged as it was measured, where it was: at the quantile of its spec, or the next higher one
that views have, so a topic is never better than it is told to be. What it would take elsewhere only coordinates can
tell. What was measured beyond that, as messages that wait for a subscriber that lags, no move changes (`excess_s`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from equipoise.model import Glob, Specs
from equipoise.plan.latency.estimate import LatencyEstimate
from equipoise.view.columns import TopicColumns
from equipoise.view.schema import MEASURED_QUANTILES
from equipoise.view.view import View

__all__ = ["LatencyLimits", "limits_of", "measured_at", "present_latency_s"]

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]
Flags = NDArray[np.bool_]


class LatencyLimits:
    """Of one view. Holds nothing that a plan changes; what homes are is told with each question."""

    def __init__(
        self,
        view: View,
        limit_s: dict[int, float],
        estimate: LatencyEstimate,
        present_s: Floats | None = None,
    ) -> None:
        """`limit_s` by topic. `present_s`: what all topics take now, NaN where it is not known; E(t) if not given."""
        self.limit_s = limit_s
        self.estimate = estimate
        self._measured_s = view.topics.latency_s_worst if present_s is None else present_s
        self._rows: dict[int, Floats] = {}

    def __bool__(self) -> bool:
        return bool(self.limit_s)

    @cached_property
    def topics(self) -> Indices:
        """Those that have a limit and can be judged."""
        limited = np.fromiter(self.limit_s, np.int64, len(self.limit_s))
        return limited[self.estimate.is_located[limited]] if len(limited) else limited

    @cached_property
    def _located(self) -> frozenset[int]:
        return frozenset(self.topics.tolist())

    def worst_s(self, topic: int) -> Floats:
        """W(t, b) for all hubs."""
        if topic not in self._rows:
            self._rows[topic] = self.estimate.worst_s(np.array([topic], np.int64))[0]
        return self._rows[topic]

    def at_homes_s(self, topic: int, homes: Iterable[int]) -> float:
        """W(t, b) at the worst of its homes: messages may take any of them."""
        row = self.worst_s(topic)
        return max((float(row[hub]) for hub in homes), default=float("inf"))

    def present_s(self, topic: int, homes: Iterable[int]) -> float:
        """What it takes now as measured, or else E(t), or else W(t, b). NaN if none is known."""
        measured_s = float(self._measured_s[topic])
        if measured_s == measured_s:
            return measured_s
        expected_s = self.at_homes_s(topic, homes)
        return expected_s if np.isfinite(expected_s) else float("nan")

    def excess_s(self, topic: int, homes: Iterable[int]) -> float:
        """By how much it takes longer now than the places of its clients explain: what no move changes."""
        excess_s = self.present_s(topic, homes) - self.at_homes_s(topic, homes)
        return excess_s if excess_s > 0 and np.isfinite(excess_s) else 0.0

    def is_within(self, topic: int, homes: Iterable[int]) -> bool | None:
        """Whether its homes keep its limit, by where its clients are. None: unknown, or there is no limit."""
        if topic not in self._located:
            return None
        expected_s = self.at_homes_s(topic, homes)
        return expected_s <= self.limit_s[topic] if np.isfinite(expected_s) else None

    def broken(self, homes_of: Callable[[int], tuple[int, ...]]) -> list[int]:
        """The topics above their limits."""
        topics = self.topics.tolist()
        limit_s = np.array([self.limit_s[topic] for topic in topics], np.float64)
        present_s = self._measured_s[self.topics]
        if np.isnan(present_s).any():
            present_s = np.array([self.present_s(topic, homes_of(topic)) for topic in topics])
        found: list[int] = self.topics[present_s > limit_s].tolist()
        return found

    def allowed(self, topic: int, homes: tuple[int, ...]) -> Flags | None:
        """The hubs that may be given the topic for another reason than latency. None: all of them."""
        if topic not in self._located:
            return None
        row, limit_s = self.worst_s(topic), self.limit_s[topic]
        if not np.isfinite(row).any():
            return None
        if self.present_s(topic, homes) <= limit_s or not homes:
            return row <= limit_s
        # It is broken, or unknown: no worse than where it is.
        return row <= max(limit_s, self.at_homes_s(topic, homes))


def limits_of(view: View, specs: Specs) -> dict[int, float]:
    """The topics whose spec has a latency limit, and the limit in seconds."""
    prefixes = tuple(Glob(spec.pattern).prefix for spec in specs if spec.latency_ms is not None)
    if not prefixes:
        return {}
    found: dict[int, float] = {}
    for at, name in enumerate(view.topics.names):
        # Most topics are under no such pattern; the beginning of a name tells in no time.
        if name.startswith(prefixes):
            spec = specs.of(name)
            if spec is not None and spec.latency_ms is not None:
                found[at] = spec.latency_ms / 1_000
    return found


def measured_at(topics: TopicColumns, quantile: float) -> Floats:
    """Of all topics, the measured latency at the quantile; NaN where nothing was measured."""
    columns = (topics.latency_s_p50, topics.latency_s_p90, topics.latency_s_p99, topics.latency_s_max)
    return columns[int(np.searchsorted(MEASURED_QUANTILES, quantile))]


def present_latency_s(topics: TopicColumns, quantiles: Mapping[int, float]) -> Floats:
    """Of all topics: E(t), but of those with a quantile what was measured, where it was."""
    present_s = topics.latency_s_worst.copy()
    for quantile in set(quantiles.values()):
        rows = np.array([topic for topic, its in quantiles.items() if its == quantile], np.int64)
        measured_s = measured_at(topics, quantile)[rows]
        is_measured = ~np.isnan(measured_s)
        present_s[rows[is_measured]] = measured_s[is_measured]
    return present_s
