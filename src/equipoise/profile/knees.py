"""Find the load metric and the threshold at which messages become late. Pure.

A load is late when its 95th percentile is above a limit. For each metric, the knee is the threshold that best separates
late loads above it from others below; its quality is the share of loads on the correct side, with both classes weighted
equally. The rank correlation with the percentile is reported, too, as ePulsar's authors used it. A metric that is
hardly better than chance has no usable knee.

The CPU costs are a least-squares fit over all loads: of a publication, of a delivery, and of a byte sent, none of them
negative.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from equipoise.profile.driver import Measured

__all__ = ["TRAFFIC", "Costs", "Knee", "costs_of", "knees_of", "late_ms"]

Floats = NDArray[np.float64]

# Metrics that a planner knows of a future load.
TRAFFIC = ("deliveries_per_s", "publications_per_s", "out_bytes_per_s", "in_bytes_per_s")
_NUMBERS = ("cpu_ratio", *TRAFFIC)
# This multiple of the calm percentile is late, but at least a millisecond or two.
_LATE_FACTOR = 5.0
_LATE_MS_MIN = 2.0
# Fewer late loads are noise of the machine.
_LATE_MIN = 3
# Rounds of leaving out a negative cost: there are three costs.
_COSTS = 3


class Knee(msgspec.Struct, frozen=True, kw_only=True):
    """Of one number."""

    number: str
    # Loads above it are late. None: no load was late, or all were.
    at: float | None
    # Share of the loads on the correct side, late and other ones weighted equally; 0.5 is chance.
    sorts: float
    # Spearman's, with the 95th percentile.
    correlation: float


class Costs(msgspec.Struct, frozen=True, kw_only=True):
    """CPU time."""

    publication_us: float
    delivery_us: float
    kilobyte_us: float


def late_ms(loads: Sequence[Measured]) -> float:
    """The percentile above which a load is late, unless configured: several times that of the calmest quarter."""
    calm = sorted(load.p95_ms for load in loads)[: max(1, len(loads) // 4)]
    return max(_LATE_MS_MIN, _LATE_FACTOR * float(np.median(calm)))


def knees_of(loads: Sequence[Measured], limit_ms: float) -> list[Knee]:
    """Of all metrics, the best predictor first."""
    p95 = np.array([load.p95_ms for load in loads])
    found = []
    for number in _NUMBERS:
        values = np.array([getattr(load, number) for load in loads], np.float64)
        at, sorts = _bound(values, p95 > limit_ms)
        found.append(Knee(number=number, at=at, sorts=sorts, correlation=_rank_correlation(values, p95)))
    return sorted(found, key=lambda knee: (-knee.sorts, -knee.correlation))


def costs_of(loads: Sequence[Measured]) -> Costs:
    columns = np.array(
        [[load.publications_per_s, load.deliveries_per_s, load.out_bytes_per_s / 1e3] for load in loads]
    )
    cpu_us = 1e6 * np.array([load.cpu_ratio for load in loads])
    # All loads have the same weight, at any rate: the result is the cost of a unit.
    weight = 1.0 / np.maximum(cpu_us, 1.0)
    used = list(range(_COSTS))
    costs = np.zeros(_COSTS)
    while used:
        solved, *_ = np.linalg.lstsq(columns[:, used] * weight[:, None], cpu_us * weight, rcond=None)
        if (solved >= 0).all():
            costs[used] = solved
            break
        used.pop(int(np.argmin(solved)))
    publication_us, delivery_us, kilobyte_us = costs.tolist()
    return Costs(publication_us=publication_us, delivery_us=delivery_us, kilobyte_us=kilobyte_us)


def _bound(values: Floats, is_late: NDArray[np.bool_]) -> tuple[float | None, float]:
    """The best threshold, and its quality; the middle of two neighbours, the lowest of equal ones."""
    if is_late.sum() < _LATE_MIN or is_late.all():
        return None, 0.5
    ordered = np.unique(values)
    if len(ordered) < 2:
        return None, 0.5
    bounds = np.sqrt(np.maximum(ordered[:-1], 1e-9) * ordered[1:])
    above = values[None, :] > bounds[:, None]
    sorted_rightly = (above[:, is_late].mean(axis=1) + (~above[:, ~is_late]).mean(axis=1)) / 2
    best = int(np.argmax(sorted_rightly))
    return float(bounds[best]), float(sorted_rightly[best])


def _rank_correlation(one: Floats, other: Floats) -> float:
    first, second = _ranks(one), _ranks(other)
    first -= first.mean()
    second -= second.mean()
    norm = float(np.sqrt((first**2).sum() * (second**2).sum()))
    return float((first * second).sum()) / norm if norm > 0 else 0.0


def _ranks(values: Floats) -> Floats:
    """Equal ones share the mean of their ranks."""
    _, at, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    ranks: Floats = (ends - (counts - 1) / 2)[at]
    return ranks
