"""The frame of all experiments: what an experiment is and how it runs.

An experiment is one entry of a table: a world for each size, a function that runs a world, and functions that make
claims, figures, parameters and notes from its outcome. These functions do not know files, terminals or commits; the
frame chooses size and seed. The points of a sweep are tasks of the current pool.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Generic, Protocol, TypeVar

from equipoise.lab.experiments.result import Claim, Figure, Line, Result, Size
from equipoise.lab.task_pool import current_pool
from equipoise.profile.environment import commit, machine

__all__ = ["Experiment", "Findings", "Progress", "curves", "no_loss", "part_of", "run", "silent", "sweep"]

World = TypeVar("World")
Seen = TypeVar("Seen")
Point = TypeVar("Point")
Found = TypeVar("Found")
Row = TypeVar("Row")

Parameters = tuple[tuple[str, str], ...]


class Progress(Protocol):
    """Called with the progress of a run."""

    def __call__(self, label: str, done: float) -> None:
        """`done`: the finished part of the whole experiment, 0 to 1."""


def silent(label: str, done: float) -> None:
    """Show nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """The findings of a run."""

    claims: tuple[Claim, ...]
    figures: tuple[Figure, ...]
    parameters: Parameters = ()
    notes: tuple[str, ...] = ()
    views: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment(Generic[World, Seen]):
    """One experiment of one paper."""

    name: str
    # The document and the part of it.
    source: str
    # One line: the varied parameter and the measured result.
    summary: str
    # The world of each size.
    worlds: Mapping[Size, World]
    # Run a world with a seed.
    world: Callable[[World, int, Progress], Seen]
    claims: Callable[[Seen], tuple[Claim, ...]]
    figures: tuple[Callable[[Seen], Figure], ...]
    parameters: Callable[[Seen], Parameters] = lambda seen: ()
    notes: Callable[[Seen], tuple[str, ...]] = lambda seen: ()
    # With the planner: the source of its views, Spark or one thread. None: no views.
    views: Callable[[Seen], str] | None = None
    # Rough duration on the machine of benchmarks/results: (quick, full).
    takes: tuple[str, str] = ("", "")

    @property
    def page(self) -> str:
        """The page of docs/results with the experiments of the paper."""
        return self.name.partition("-")[0]

    def find(self, world: World, seed: int, progress: Progress = silent) -> Findings:
        """Run this world, and derive its findings."""
        return self.judge(self.world(world, seed, progress))

    def judge(self, seen: Seen) -> Findings:
        return Findings(
            claims=self.claims(seen),
            figures=tuple(figure(seen) for figure in self.figures),
            parameters=self.parameters(seen),
            notes=self.notes(seen),
            views=self.views(seen) if self.views is not None else "",
        )


def run(experiment: Experiment[Any, Any], size: Size, seed: int, progress: Progress) -> Result:
    """Run an experiment in one of its sizes; the result states commit, date, machine and duration."""
    began = time.perf_counter()
    findings = experiment.find(experiment.worlds[size], seed, progress)
    found = machine()
    return Result(
        experiment=experiment.name,
        size=size,
        seed=seed,
        claims=findings.claims,
        figures=findings.figures,
        parameters=findings.parameters,
        notes=findings.notes,
        views=findings.views,
        commit=commit(),
        took_s=time.perf_counter() - began,
        taken_at=datetime.now(UTC).isoformat(timespec="minutes"),
        machine=f"{found.cores} cores, {found.processor}, {found.memory_bytes / 2**30:.0f} GiB",
    )


# Common parts of world functions, claims and figures.


def sweep(
    function: Callable[[Point], Found], points: Sequence[Point], progress: Progress, label: str
) -> dict[Point, Found]:
    """Call the function for each point in the current pool; results keep the order. Both must be picklable."""
    found: dict[int, Found] = {}
    progress(label, 0.0)
    for index, result in current_pool().run(function, points):
        found[index] = result
        progress(label, len(found) / len(points))
    return {point: found[index] for index, point in enumerate(points)}


def part_of(progress: Progress, begin: float, end: float, prefix: str = "") -> Progress:
    """Progress of a run that is a part of the experiment."""
    return lambda label, done: progress(prefix + label, begin + (end - begin) * done)


def curves(
    rows: Iterable[tuple[str, Sequence[Row]]], x: Callable[[Row], float], y: Callable[[Row], float]
) -> tuple[Line, ...]:
    """One line per labelled row of values."""
    return tuple(
        Line(label=label, x=tuple(float(x(one)) for one in row), y=tuple(y(one) for one in row))
        for label, row in rows
    )


def no_loss(lost: int, deliveries: int, paper: str = "not stated; none asked") -> Claim:
    """The claim that every experiment with clients makes."""
    return Claim(
        claim="messages lost",
        paper=paper,
        ours=f"{lost} of {deliveries:,}",
        holds=lost == 0,
        value=float(lost),
        at_most=0.0,
    )
