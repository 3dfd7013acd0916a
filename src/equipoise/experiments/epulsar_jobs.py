"""Run many independent placements, as a Spark job where Spark can be had.

A placement is decided by its number and the seed alone, so it does not matter who runs it, or in which order. A worker
builds each world once, from its kind, its size and the coordinates that its nodes have found.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np

from equipoise.coordinates import Coordinate
from equipoise.errors import PipelineError
from equipoise.experiments.embedding import Noise, embed
from equipoise.experiments.epulsar_selection import POLICIES, evaluate, select
from equipoise.experiments.epulsar_worlds import World, game_world, swarm_world

__all__ = ["Found", "Pace", "Runner", "Task", "in_process", "runner", "settle", "simulate"]

log = logging.getLogger("equipoise.experiments")

# Placements that are run here first, to know what one of them takes.
_SAMPLES = 6


@dataclass(frozen=True, slots=True)
class Task:
    """One world with settled coordinates."""

    kind: str
    size: int
    seed: int
    coordinates: tuple[Coordinate, ...]

    def world(self) -> World:
        return _world(self.kind, self.size, self.seed)


@dataclass(frozen=True, slots=True)
class Found:
    """One policy in one world, over all placements."""

    worst_ms_mean: float
    worst_ms_max: float
    pairs: int
    violated: int

    @property
    def ratio(self) -> float:
        return self.violated / self.pairs if self.pairs else 0.0


@dataclass(frozen=True, slots=True)
class Pace:
    """How long it took, and would have taken one after the other; `cores` 0: it was run one after the other."""

    simulations: int
    took_s: float
    alone_s: float
    cores: int
    why_not: str = ""

    @property
    def told(self) -> str:
        if not self.cores:
            return f"{self.simulations:,} in {self.took_s:.1f} s, one after the other: {self.why_not}"
        return (
            f"{self.simulations:,} in {self.took_s:.1f} s as a Spark job on {self.cores} cores; one after the other "
            f"{self.alone_s:.1f} s: ×{self.alone_s / max(self.took_s, 1e-9):.2f}"
        )


# World, policy, worst_ms, pairs, violated.
Row = tuple[int, str, float, int, int]
# Runs so many placements, by number: n is placement n // worlds of world n % worlds.
Runner = Callable[[tuple[Task, ...], int], list[Row]]


def settle(kind: str, size: int, seed: int, *, seconds: int = 600, noise: Noise | None = None) -> Task:
    """Let the nodes of a world find their coordinates, once, as the paper does."""
    coordinates = embed(_world(kind, size, seed).rtt_s, seconds, seed, noise or Noise())
    return Task(kind, size, seed, tuple(coordinates))


def simulate(
    tasks: Sequence[Task], placements: int, run: Runner, *, cores: int, why_not: str = ""
) -> tuple[dict[tuple[int, str], Found], Pace]:
    """What each policy does in each world, by (size of the world, policy)."""
    total = placements * len(tasks)
    started = time.perf_counter()
    sampled = min(total, _SAMPLES * len(tasks))
    list(_rows(tuple(tasks), range(sampled)))
    alone_s = (time.perf_counter() - started) / sampled * total
    started = time.perf_counter()
    rows = run(tuple(tasks), total)
    pace = Pace(total, time.perf_counter() - started, alone_s, cores, why_not)
    found = {}
    for at, task in enumerate(tasks):
        for policy in POLICIES:
            mine = [row for row in rows if row[0] == at and row[1] == policy]
            worst_ms = [row[2] for row in mine]
            found[task.size, policy] = Found(
                sum(worst_ms) / len(worst_ms),
                max(worst_ms),
                sum(row[3] for row in mine),
                sum(row[4] for row in mine),
            )
    return found, pace


def in_process(tasks: tuple[Task, ...], total: int) -> list[Row]:
    return list(_rows(tasks, range(total)))


@contextmanager
def runner() -> Iterator[tuple[Runner, int, str]]:
    """What runs placements, on how many cores, and why Spark does not if it does not."""
    cores = os.cpu_count() or 1
    try:
        from equipoise.pipeline.session import SparkDriver
        from equipoise.pipeline.settings import SessionSettings

        driver = SparkDriver.start(SessionSettings(master=f"local[{cores}]"))
    except (PipelineError, ImportError) as problem:
        log.warning("without Spark: %s", problem)
        yield in_process, 0, f"Spark could not be started ({problem})"
        return

    def run(tasks: tuple[Task, ...], total: int) -> list[Row]:
        # Numbers go round the worlds, so all parts have the same share of each.
        numbers = driver.session.sparkContext.parallelize(range(total), min(total, 4 * cores))
        return numbers.mapPartitions(partial(_listed, tasks)).collect()

    try:
        yield run, cores, ""
    finally:
        driver.stop()


def _listed(tasks: tuple[Task, ...], numbers: Iterable[int]) -> list[Row]:
    return list(_rows(tasks, numbers))


def _rows(tasks: tuple[Task, ...], numbers: Iterable[int]) -> Iterator[Row]:
    for number in numbers:
        turn, at = divmod(number, len(tasks))
        task = tasks[at]
        world = task.world()
        placement = world.draw(np.random.default_rng([task.seed, task.size, turn]))
        for policy, hubs in select(world, task.coordinates, placement).items():
            outcome = evaluate(world, placement, hubs)
            yield at, policy, outcome.worst_ms, outcome.pairs, outcome.violated


@lru_cache(maxsize=32)
def _world(kind: str, size: int, seed: int) -> World:
    return game_world(size) if kind == "game" else swarm_world(size, seed)
