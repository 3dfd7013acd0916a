"""Time series for charts, from views. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from equipoise.view import View

__all__ = ["Latency", "Series", "SeriesSample", "latency_of"]

# The busiest topics of any view keep their curves in any case.
TOPICS_KEPT = 200


class Latency(NamedTuple):
    """Measured, in milliseconds; None without a measurement."""

    p50: float | None
    p99: float | None


@dataclass(frozen=True, slots=True)
class SeriesSample:
    """The sums of one view."""

    at_s: float
    publications_per_s: float
    deliveries_per_s: float
    out_bytes_per_s: float
    latency_ms: Latency
    # Of the hub with the largest lag: the wait of a message inside it, without the network.
    loop_lag_ms_worst: float
    # By hub, as computed by the planner (`telemetry.load`).
    loads: Mapping[str, float]
    # Publications per second, measured p99 latency and the estimated worst, by topic, of the busiest and those that
    # were noted.
    topics: Mapping[bytes, tuple[float, float, float]] = field(default_factory=dict)


class Series:
    """Owned by one server; changes through `add`."""

    def __init__(self, keep_s: float) -> None:
        self._keep_s = keep_s
        self.samples: deque[SeriesSample] = deque()

    def is_new(self, view: View) -> bool:
        return not self.samples or view.time_s > self.samples[-1].at_s

    def add(self, view: View, loads: Sequence[float], noted: Sequence[int] = ()) -> bool:
        """Add a view; False if it was added before. `loads`: of its hubs; `noted`: topics kept beside the busiest."""
        if not self.is_new(view):
            return False
        self.samples.append(sample_of(view, loads, noted))
        while self.samples and self.samples[0].at_s < view.time_s - self._keep_s:
            self.samples.popleft()
        return True

    def since(self, at_s: float) -> list[SeriesSample]:
        """The samples later than this."""
        found: list[SeriesSample] = []
        for sample in reversed(self.samples):
            if sample.at_s <= at_s:
                break
            found.append(sample)
        return found[::-1]

    def of_topic(self, name: bytes) -> list[tuple[float, float, float, float]]:
        """(time, publications per second, p99 measured and worst estimated, in seconds or NaN) for each sample."""
        found = []
        for sample in self.samples:
            point = sample.topics.get(name)
            if point is not None:
                found.append((sample.at_s, *point))
        return found


def sample_of(view: View, loads: Sequence[float], noted: Sequence[int] = ()) -> SeriesSample:
    topics, hubs = view.topics, view.hubs
    busiest = np.argsort(-topics.out_bytes_per_s, kind="stable")[:TOPICS_KEPT]
    return SeriesSample(
        view.time_s,
        float(topics.publications_per_s.sum()),
        float(topics.deliveries_per_s.sum()),
        float(topics.out_bytes_per_s.sum()),
        latency_of(view),
        1_000 * float(hubs.loop_lag_s.max(initial=0.0)),
        dict(zip(hubs.names, loads, strict=True)),
        {
            topics.names[at]: (
                float(topics.publications_per_s[at]),
                float(topics.latency_s_p99[at]),
                float(topics.latency_s_worst[at]),
            )
            for at in {*busiest.tolist(), *noted}
        },
    )


def latency_of(view: View | None) -> Latency:
    """Over the topics with measured latency, weighted by deliveries: the quantile of each."""
    if view is None:
        return Latency(None, None)
    columns = {0.5: view.topics.latency_s_p50, 0.99: view.topics.latency_s_p99}
    return Latency(*(_weighted_ms(view, column, share) for share, column in columns.items()))


def _weighted_ms(view: View, column: NDArray[np.float64], share: float) -> float | None:
    known = np.isfinite(column)
    if not known.any():
        return None
    order = np.argsort(column[known])
    weights = np.cumsum(view.topics.deliveries_per_s[known][order] + 1e-9)
    at = min(int(np.searchsorted(weights, share * weights[-1])), len(weights) - 1)
    return 1_000 * float(column[known][order][at])
