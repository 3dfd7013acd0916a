"""What figures 8 and 9 of ePulsar have in common: a run with a planner beside one with hashing, both under a limit.

Latencies are measured one way and told doubled: the paper holds its limits against sums of round trips.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from equipoise.lab.experiments.experiment import Progress
from equipoise.lab.experiments.latencies import Latencies
from equipoise.lab.experiments.meter import Meter
from equipoise.lab.experiments.result import Claim, Line, Marks, Panel

__all__ = [
    "LimitedRun",
    "limit_panel",
    "limit_parameter",
    "nothing_lost",
    "planned_and_hashed",
    "shares_above",
]

# The part of the time that the planned run takes.
_SHARE = 0.9

World = TypeVar("World")
Outcome = TypeVar("Outcome")


class LimitedRun(Protocol):
    """What came of one."""

    @property
    def latencies(self) -> Latencies: ...

    @property
    def meter(self) -> Meter: ...


def planned_and_hashed(
    run: Callable[[World, Progress], Outcome], planned: World, hashed: World, progress: Progress
) -> tuple[Outcome, Outcome]:
    """One after the other."""
    first = run(planned, lambda label, done: progress(label, _SHARE * done))
    second = run(hashed, lambda label, done: progress(f"hashing, {label}", _SHARE + (1 - _SHARE) * done))
    return first, second


def shares_above(limit_ms: float, *runs: LimitedRun) -> list[float]:
    """Of each run, the share of messages above the limit."""
    return [run.latencies.share_above(limit_ms / 2e3) for run in runs]


def nothing_lost(*runs: LimitedRun) -> Claim:
    lost = sum(run.meter.lost for run in runs)
    return Claim(
        claim="messages lost",
        paper="not told; none asked",
        ours=f"{lost} of {sum(run.meter.deliveries for run in runs):,}",
        holds=lost == 0,
    )


def limit_parameter(limit_ms: float) -> tuple[str, str]:
    return "limit", f"{limit_ms:g} ms of round trips, {limit_ms / 2:g} ms one way"


def limit_panel(
    title: str,
    lines: Mapping[str, NDArray[np.float64]],
    limit_ms: float,
    *,
    marked: str = "",
    at_s: Sequence[float] = (),
) -> Panel:
    """Curves of the worst second by second, in seconds one way, over the limit; `marked` says what happened `at_s`."""
    return Panel(
        title=title,
        y_label="ms, both ways",
        lines=tuple(
            Line(
                label=label, x=tuple(float(second) for second in range(1, len(worst_s) + 1)), y=_told(worst_s)
            )
            for label, worst_s in lines.items()
        ),
        marks=(Marks(label=marked, x=tuple(at_s)),) if marked else (),
        level=limit_ms,
        level_label="limit",
    )


def _told(worst_s: NDArray[np.float64]) -> tuple[float | None, ...]:
    """In milliseconds of both ways; nothing where nothing was heard."""
    return tuple(None if np.isnan(value) else round(2e3 * float(value), 2) for value in worst_s)
