"""Numbers from samples: medians, percentiles, ratios of pairs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median

__all__ = ["median", "pair_ratios", "percentile"]


def percentile(ordered: Sequence[float], share: float) -> float:
    """The smallest sample that at least `share` of all do not exceed. `ordered` ascends, and is not empty."""
    rank = max(1, math.ceil(share * len(ordered)))
    return ordered[rank - 1]


def pair_ratios(ours: Sequence[float], theirs: Sequence[float]) -> list[float]:
    """Ratio of each round's pair. A round that only one of the two finished forms no pair."""
    return [a / b for a, b in zip(ours, theirs, strict=False) if b > 0]
