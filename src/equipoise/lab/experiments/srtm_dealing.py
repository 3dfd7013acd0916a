"""SRTM, section VI-D: a topic whose publishers send in groups, split in several ways, with or without groups."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from equipoise.lab.experiments.experiment import Progress, sweep
from equipoise.lab.experiments.srtm_topic import LimitedTopic, Mean, Split, SplitScale, choose, mean_of
from equipoise.lab.workload.grouped_publishers import GroupedPublishers
from equipoise.limits.distribution import SplitPolicy

__all__ = [
    "BATCH",
    "PUBLISHERS",
    "FourSplits",
    "GroupPoint",
    "GroupScale",
    "GroupedSplits",
    "deal_groups",
    "kind",
]

PUBLISHERS = 1_000
BATCH = 10


class _Cell(NamedTuple):
    is_periodic: bool
    group: int
    spread_ms: int
    run: int


# Whether periodic, publishers in a group, spread in milliseconds.
GroupPoint = tuple[bool, int, int]


class FourSplits(NamedTuple):
    """One topic, split in four ways."""

    max_min: Split
    # Over as many hubs as SRTM uses.
    forced: Split
    stated: Split
    found: Split
    # The found order over as many hubs as SRTM uses.
    found_alike: Split
    # Stated groups, with a depth profiled on another trace.
    elsewhere: Split


@dataclass(frozen=True, slots=True)
class GroupScale:
    """Group sizes, spreads in milliseconds, seconds of a trace, runs."""

    groups: tuple[int, ...]
    spreads_ms: tuple[int, ...]
    seconds: float
    runs: int

    @property
    def split_scale(self) -> SplitScale:
        return SplitScale((PUBLISHERS,), self.seconds, self.runs)


@dataclass(frozen=True, slots=True)
class GroupedSplits:
    scale: GroupScale
    cells: dict[_Cell, FourSplits]

    def mean(self, at: GroupPoint, value: Callable[[FourSplits], float]) -> Mean:
        runs = range(self.scale.runs)
        return mean_of([value(self.cells[_Cell(*at, run)]) for run in runs])

    def points(self) -> list[GroupPoint]:
        return list(dict.fromkeys((cell.is_periodic, cell.group, cell.spread_ms) for cell in self.cells))


def _split(cell: _Cell, seconds: float, seed: int) -> FourSplits:
    workload = GroupedPublishers(
        count=PUBLISHERS,
        batch=BATCH,
        is_periodic=cell.is_periodic,
        group=cell.group,
        spread_s=cell.spread_ms / 1_000,
    )
    trace_seed = 1_000 * seed + cell.run
    topic = LimitedTopic(workload, seconds, trace_seed)
    elsewhere = LimitedTopic(workload, seconds, trace_seed, is_profiled_elsewhere=True)
    hubs = choose(partial(topic.split, SplitPolicy.CORRELATION), 1).hubs
    stated = topic.split(SplitPolicy.CORRELATION, hubs, is_compared=True)
    return FourSplits(
        max_min=choose(partial(topic.split, SplitPolicy.MAX_MIN), 1),
        forced=topic.split(SplitPolicy.MAX_MIN, hubs),
        stated=stated,
        found=choose(topic.best_found, 1),
        found_alike=topic.best_found(hubs),
        elsewhere=elsewhere.split(SplitPolicy.CORRELATION, hubs, is_compared=True),
    )


# Cache of the last world: figures 7 and 8 use the same world.
_last: dict[tuple[GroupScale, int], GroupedSplits] = {}


def deal_groups(scale: GroupScale, seed: int, progress: Progress) -> GroupedSplits:
    """Split a topic for each kind of publisher, size of group and spread."""
    if (scale, seed) not in _last:
        _last.clear()
        _last[scale, seed] = _deal(scale, seed, progress)
    return _last[scale, seed]


def _deal(scale: GroupScale, seed: int, progress: Progress) -> GroupedSplits:
    cells = [
        _Cell(is_periodic, group, spread_ms, run)
        for is_periodic in (False, True)
        for group in scale.groups
        for spread_ms in scale.spreads_ms
        for run in range(scale.runs)
    ]
    return GroupedSplits(
        scale, sweep(partial(_split, seconds=scale.seconds, seed=seed), cells, progress, "traces")
    )


def kind(is_periodic: bool) -> str:
    return "periodic" if is_periodic else "Poisson"
