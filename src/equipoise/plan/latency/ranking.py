"""Candidate hubs of a topic, in order (ePulsar 3.4.1).

The hubs that keep a topic's messages within its limit, the fastest first; if there is none, all hubs, the fastest
first. Most topics get one of their first few choices, so only these are kept; the rest is computed on request, at the
cost of ranking that one topic again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from equipoise.plan.latency.limits import LatencyEstimate

__all__ = ["Candidates", "rank"]

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]
Flags = NDArray[np.bool_]

# Choices kept per topic: the hubs of a site, one for each core of its machine, and some more.
_KEPT = 12
# Numbers worked on at a time: half a megabyte, which a core's cache holds.
_CHUNK = 65_536


@dataclass(frozen=True, eq=False)
class Candidates:
    """The choices of some topics. Rows are in the order of the topics given."""

    topics: Indices
    limit_s: Floats
    # |F[t]|: the number of hubs that a topic may choose from, and whether they keep its limit.
    choices: Indices
    is_feasible: Flags
    # The first choices and their latencies; short rows end with hubs of infinite latency.
    best: Indices
    best_s: Floats
    estimate: LatencyEstimate
    hosts: Flags
    only: Mapping[int, Flags]

    def of(self, row: int) -> Iterator[tuple[int, float]]:
        """The topic's choices in order, with their latencies."""
        yield from self.first(row)
        yield from self.beyond(row)

    def first(self, row: int) -> list[tuple[int, float]]:
        """The choices that are kept."""
        count = min(int(self.choices[row]), self.best.shape[1])
        return list(zip(self.best[row, :count].tolist(), self.best_s[row, :count].tolist(), strict=True))

    def beyond(self, row: int) -> Iterator[tuple[int, float]]:
        """The other choices, which are ranked again."""
        kept, choices = self.best.shape[1], int(self.choices[row])
        if choices > kept:
            worst = _hosted(self, int(self.topics[row]), self.estimate.worst_s(self.topics[row : row + 1])[0])
            order = np.argsort(worst, kind="stable")[kept:choices]
            yield from zip(order.tolist(), worst[order].tolist(), strict=True)

    def fewest_first(self) -> list[int]:
        """The rows in the order in which topics choose; equal ones in the given order."""
        order: list[int] = np.argsort(self.choices, kind="stable").tolist()
        return order


def rank(
    estimate: LatencyEstimate,
    topics: Indices,
    limit_s: Floats,
    hosts: Flags,
    only: Mapping[int, Flags] | None = None,
) -> Candidates:
    """`hosts` are the eligible hubs; `only`, by topic, the hubs to which some topics are bound."""
    kept = min(_KEPT, len(hosts))
    made = Candidates(
        topics,
        limit_s,
        choices=np.zeros(len(topics), np.int64),
        is_feasible=np.zeros(len(topics), np.bool_),
        best=np.zeros((len(topics), kept), np.int64),
        best_s=np.full((len(topics), kept), np.inf),
        estimate=estimate,
        hosts=hosts,
        only=only or {},
    )
    step = max(1, _CHUNK // max(1, len(hosts)))
    for start in range(0, len(topics), step):
        _rank_some(made, slice(start, start + step))
    return made


def _rank_some(made: Candidates, rows: slice) -> None:
    worst = made.estimate.worst_s(made.topics[rows])
    worst[:, ~made.hosts] = np.inf
    if made.only:
        for row, topic in enumerate(made.topics[rows].tolist()):
            if topic in made.only:
                worst[row] = _hosted(made, topic, worst[row])
    feasible = np.count_nonzero(worst <= made.limit_s[rows][:, None], axis=1)
    made.is_feasible[rows] = feasible > 0
    hosts = np.count_nonzero(worst < np.inf, axis=1)
    made.choices[rows] = np.where(feasible > 0, feasible, hosts)
    at = np.arange(len(worst))
    # One column after the other: cheaper than a sort or a partition for the few values needed.
    for place in range(made.best.shape[1]):
        best = worst.argmin(axis=1)
        made.best[rows, place] = best
        made.best_s[rows, place] = worst[at, best]
        worst[at, best] = np.inf


def _hosted(made: Candidates, topic: int, worst: Floats) -> Floats:
    """Without the hubs that may not serve the topic."""
    hosts = made.hosts & made.only[topic] if topic in made.only else made.hosts
    return np.where(hosts, worst, np.inf)
