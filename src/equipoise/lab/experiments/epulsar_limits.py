"""Common parts of ePulsar's figures 8 and 9 (5.8): one world under a latency limit, with the planner and with hashing.

Latencies are measured one way and shown doubled: the paper compares its limits with sums of round trips.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from equipoise.lab.experiments.experiment import Progress, no_loss, part_of
from equipoise.lab.experiments.meter import Latencies, Meter
from equipoise.lab.experiments.result import Claim, Line, Marks, Panel
from equipoise.lab.experiments.views import view_making
from equipoise.lab.simulation.cluster.controller import LiveViews

__all__ = ["HASHED_PER_S", "Compared", "LimitedRun", "compare", "limit_panel", "limit_parameter"]

# Spark makes one view in this many.
SPARK_EVERY = 60
# The share of the planned run in the duration.
_PLANNED_SHARE = 0.9
# With hashing the result does not depend on the message rate.
HASHED_PER_S = 10.0


class LimitedRun(Protocol):
    """The outcome of one run."""

    @property
    def latencies(self) -> Latencies: ...

    @property
    def meter(self) -> Meter: ...


World = TypeVar("World")
Outcome = TypeVar("Outcome", bound=LimitedRun)


@dataclass(frozen=True, slots=True)
class Compared(Generic[Outcome]):
    """The same world with the planner and with hashing."""

    planned: Outcome
    hashed: Outcome
    # The source of the planned run's views.
    views: str = ""

    def shares_above(self, limit_ms: float) -> tuple[float, float]:
        """The share of messages above the limit in each run."""
        planned, hashed = (run.latencies.share_above(limit_ms / 2e3) for run in (self.planned, self.hashed))
        return planned, hashed

    @property
    def no_loss(self) -> Claim:
        meters = (self.planned.meter, self.hashed.meter)
        return no_loss(sum(meter.lost for meter in meters), sum(meter.deliveries for meter in meters))


def compare(
    run: Callable[[World, Progress, LiveViews | None], Outcome],
    planned: World,
    hashed: World,
    progress: Progress,
) -> Compared[Outcome]:
    """Run both, one after the other. Hashing needs no views."""
    with view_making(SPARK_EVERY) as views:
        first = run(planned, part_of(progress, 0.0, _PLANNED_SHARE), views())
    second = run(hashed, part_of(progress, _PLANNED_SHARE, 1.0, "hashing, "), None)
    return Compared(first, second, views.note)


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
    """Curves of the worst latency of each second, one way, with the limit; `marked` labels the events `at_s`."""
    return Panel(
        title=title,
        y_label="ms, both ways",
        lines=tuple(
            Line(
                label=label,
                x=tuple(float(second) for second in range(1, len(worst_s) + 1)),
                y=_both_ways_ms(worst_s),
            )
            for label, worst_s in lines.items()
        ),
        marks=(Marks(label=marked, x=tuple(at_s)),) if marked else (),
        level=limit_ms,
        level_label="limit",
    )


def _both_ways_ms(worst_s: NDArray[np.float64]) -> tuple[float | None, ...]:
    """Round trips in milliseconds; None for seconds without messages."""
    return tuple(None if np.isnan(value) else round(2e3 * float(value), 2) for value in worst_s)
