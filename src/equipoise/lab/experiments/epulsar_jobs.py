"""Run many independent placements, as a Spark job where Spark is available.

A placement depends only on its number and the seed, so workers can run placements in any order. A worker builds each
world once, from its kind, its size and the coordinates of its nodes.

A placement takes milliseconds, and a Spark task has tens of milliseconds of overhead. So a task is a batch of
placements that takes seconds, with only a few tasks per core. Every worker computes on one thread. The job's speed is
compared with a share of the same placements run sequentially in this process, also on one thread.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Protocol

import numpy as np

from equipoise.coordinates import Coordinate
from equipoise.lab.experiments.epulsar_coordinates import Noise, embed
from equipoise.lab.experiments.epulsar_selection import POLICIES, evaluate, select
from equipoise.lab.experiments.epulsar_worlds import PlacementWorld, game_world, swarm_world
from equipoise.lab.experiments.views import spark_driver

if TYPE_CHECKING:
    from pyspark import SparkContext

__all__ = ["Found", "InProcess", "OnSpark", "Pace", "Row", "Runner", "Task", "running", "settle", "simulate"]

# The share of all placements that is also run sequentially in this process, and the smallest number per world.
_SAMPLED = 0.1
_SAMPLES_MIN = 6
# Batches per core: few, so that the overhead is small, and more than one, so that the last batch ends soon.
_BATCHES = 3
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


@dataclass(frozen=True, slots=True)
class Task:
    """One world with settled coordinates."""

    kind: str
    size: int
    seed: int
    coordinates: tuple[Coordinate, ...]

    def world(self) -> PlacementWorld:
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
    """The duration of the job, and of a sequential run; `cores` 0: the job ran sequentially."""

    simulations: int
    took_s: float
    alone_s: float
    cores: int
    why_not: str = ""
    # Start time of the workers, which is not part of `took_s`.
    start_s: float = 0.0

    @property
    def line(self) -> str:
        if not self.cores:
            return f"{self.simulations:,} in {self.took_s:.1f} s, one after the other: {self.why_not}"
        return (
            f"{self.simulations:,} in {self.took_s:.1f} s as a Spark job on {self.cores} cores, whose workers took "
            f"{self.start_s:.1f} s to start; one after the other, by a tenth of them, {self.alone_s:.1f} s: "
            f"×{self.alone_s / max(self.took_s, 1e-9):.2f}"
        )


# World, policy, worst_ms, pairs, violated.
Row = tuple[int, str, float, int, int]


class Runner(Protocol):
    """Runs placements by number: n is placement n // worlds of world n % worlds."""

    # Number of cores; 0: sequentially in this process, for the reason in `why_not`.
    cores: int
    why_not: str

    def ready(self, tasks: tuple[Task, ...]) -> None:
        """Start all workers, and let them build the worlds."""

    def run(self, tasks: tuple[Task, ...], total: int) -> list[Row]: ...


class InProcess:
    """Runs placements sequentially."""

    cores = 0

    def __init__(self, why_not: str) -> None:
        self.why_not = why_not

    def ready(self, tasks: tuple[Task, ...]) -> None:
        """Nothing to do: there are no workers."""

    def run(self, tasks: tuple[Task, ...], total: int) -> list[Row]:
        return list(_rows(tasks, range(total)))


class OnSpark:
    """Runs placements as a Spark job with a few batches per core."""

    why_not = ""

    def __init__(self, context: SparkContext, cores: int) -> None:
        self._context = context
        self.cores = cores

    def ready(self, tasks: tuple[Task, ...]) -> None:
        self._collect(tasks, self.cores * len(tasks), self.cores)

    def run(self, tasks: tuple[Task, ...], total: int) -> list[Row]:
        return self._collect(tasks, total, min(total, _BATCHES * self.cores))

    def _collect(self, tasks: tuple[Task, ...], total: int, batches: int) -> list[Row]:
        # Consecutive numbers belong to different worlds, so all batches have the same share of each world.
        numbers = self._context.parallelize(range(total), batches)
        return numbers.mapPartitions(partial(_listed, tasks)).collect()


def settle(kind: str, size: int, seed: int, *, seconds: int = 600, noise: Noise | None = None) -> Task:
    """Let the nodes of a world find their coordinates, once, as the paper does."""
    world = _world(kind, size, seed)
    coordinates = embed(world.rtt_s, seconds, seed, noise or Noise(), world.hubs.tolist())
    return Task(kind, size, seed, tuple(coordinates))


def simulate(
    tasks: Sequence[Task], placements: int, runner: Runner
) -> tuple[dict[tuple[int, str], Found], Pace]:
    """The result of each policy in each world, by (size of the world, policy)."""
    every, total = tuple(tasks), placements * len(tasks)
    started = time.perf_counter()
    runner.ready(every)
    start_s = time.perf_counter() - started
    alone_s = _alone_s(every, total) if runner.cores else 0.0
    started = time.perf_counter()
    rows = runner.run(every, total)
    pace = Pace(total, time.perf_counter() - started, alone_s, runner.cores, runner.why_not, start_s)
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


def _alone_s(tasks: tuple[Task, ...], total: int) -> float:
    """Estimated duration of a sequential run of all placements, from a share of them."""
    worlds = len(tasks)
    _listed(tasks, range(worlds))
    sampled = min(total, max(_SAMPLES_MIN, int(_SAMPLED * total / worlds)) * worlds)
    started = time.perf_counter()
    _listed(tasks, range(sampled))
    return (time.perf_counter() - started) / sampled * total


@contextmanager
def running() -> Iterator[Runner]:
    """The runner of placements: Spark if available."""
    # Workers inherit the environment. With one worker per core more threads only compete.
    with one_thread(), spark_driver(f"local[{os.cpu_count() or 1}]") as found:
        if isinstance(found, str):
            yield InProcess(found)
        else:
            context = found.session.sparkContext
            yield OnSpark(context, context.defaultParallelism)


@contextmanager
def one_thread() -> Iterator[None]:
    """Limit numpy's libraries to one thread in processes that start meanwhile."""
    before = {name: os.environ.get(name) for name in _THREADS}
    os.environ.update(dict.fromkeys(_THREADS, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


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
def _world(kind: str, size: int, seed: int) -> PlacementWorld:
    return game_world(size) if kind == "game" else swarm_world(size, seed)
