"""Arrivals of a topic whose publishers send periodically or by event, alone or in groups, singly or in batches.

As in the evaluation of SRTM: all publishers have the same mean rate; Poisson arrivals, or periodic ones with a random
phase; a batch of messages each time; publishers of one group send at the same time, or spread evenly over an interval
after it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from equipoise.limits.replay import ArrivalTrace

__all__ = ["GroupedPublishers"]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupedPublishers:
    """The publishers of one topic."""

    count: int
    # Messages per second of each publisher.
    rate_per_s: float = 10.0
    batch: int = 1
    is_periodic: bool = False
    group: int = 1
    # Publishers of a group send within this interval.
    spread_s: float = 0.0

    @property
    def topic_rate_per_s(self) -> float:
        return self.count * self.rate_per_s

    def group_of(self, publisher: int) -> int:
        return publisher // self.group

    def arrivals(
        self, seconds: float, rng: np.random.Generator, phases: np.random.Generator | None = None
    ) -> ArrivalTrace:
        """Arrivals of this many seconds. `phases`: generator of the phases, so that equal seeds give equal phases."""
        period_s = self.batch / self.rate_per_s
        groups = -(-self.count // self.group)
        if self.is_periodic:
            begin = (phases or rng).random(groups) * period_s
            rounds = np.arange(int(np.ceil(seconds / period_s)))
            times = (begin[:, None] + rounds[None, :] * period_s).ravel()
            of_group = np.repeat(np.arange(groups), len(rounds))
        else:
            fired = rng.poisson(seconds / period_s, groups)
            of_group = np.repeat(np.arange(groups), fired)
            times = rng.random(len(of_group)) * seconds
        # An event of a group is one event of each of its publishers.
        each = np.arange(self.group)
        publishers = (of_group[:, None] * self.group + each[None, :]).ravel()
        offsets = self._offsets(len(times), rng)
        events = (times[:, None] + offsets).ravel()
        kept = (publishers < self.count) & (events < seconds)
        return _batched(events[kept], publishers[kept], self.batch)

    def _offsets(self, events: int, rng: np.random.Generator) -> NDArray[np.float64]:
        """Delay of each publisher of a group after the event of the group: evenly spread, in random order."""
        if not self.spread_s:
            return np.zeros((events, self.group))
        steps = np.arange(self.group) / max(1, self.group - 1) * self.spread_s
        return rng.permuted(np.tile(steps, (events, 1)), axis=1)


def _batched(events: NDArray[np.float64], publishers: NDArray[np.int64], batch: int) -> ArrivalTrace:
    order = np.argsort(events, kind="stable")
    begins = np.zeros(len(order) * batch, np.bool_)
    begins[::batch] = True
    return ArrivalTrace(
        np.repeat(events[order], batch), np.repeat(publishers[order], batch).astype(np.int64), begins
    )
