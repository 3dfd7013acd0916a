"""What an experiment is: a name, what it shows, and a function that runs it and says what is claimed.

`run` is given a size, a seed and a listener for its progress; it returns findings and knows nothing of files, terminals
or commits. The points of a sweep are tasks of the current pool.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from equipoise.lab.experiments.result import Claim, Figure, Size
from equipoise.lab.task_pool import current_pool

__all__ = ["Experiment", "Findings", "Progress", "silent", "sweep"]

T = TypeVar("T")
R = TypeVar("R")


class Progress(Protocol):
    """Told how far a run is."""

    def __call__(self, label: str, done: float) -> None:
        """`done`: the part of the whole experiment that is over, 0 to 1."""


def silent(label: str, done: float) -> None:
    """Tell nobody."""


def sweep(function: Callable[[T], R], points: Sequence[T], tell: Callable[[float], None]) -> list[R]:
    """The function of each point, by the current pool, in the order of the points; `tell` gets the share done."""
    found: dict[int, R] = {}
    tell(0.0)
    for index, result in current_pool().run(function, points):
        found[index] = result
        tell(len(found) / len(points))
    return [found[index] for index in range(len(points))]


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """What a run found."""

    claims: tuple[Claim, ...]
    figures: tuple[Figure, ...]
    parameters: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = field(default=())


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """One experiment of one paper."""

    name: str
    # The document and the part of it.
    source: str
    # One line: what is varied and what is looked at.
    summary: str
    run: Callable[[Size, int, Progress], Findings]
    # Measured on the machine of benchmarks/results, roughly: (quick, full).
    takes: tuple[str, str] = ("", "")

    @property
    def page(self) -> str:
        """The page of docs/results that its paper's experiments share."""
        return self.name.partition("-")[0]
