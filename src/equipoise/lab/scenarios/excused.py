"""Seeds that are known to fail, by name, each with its reason. The list only shrinks.

A seed is listed when the honest checkers show a fault that is not mended yet. A test demands that each of them still
fails: once mended, it has to go from here.
"""

from __future__ import annotations

__all__ = ["EXCUSED", "is_excused"]

# Messages that a hub had acknowledged and that a link gives up for want of room never get a number.
OVERFLOW = "a link that overflows loses messages on the way to their home, and no gap is told"
# By case and seed, what is wrong.
EXCUSED: dict[tuple[str, int], str] = {
    # Of seeds 0..40.
    **{("cluster-narrow", seed): OVERFLOW for seed in (1, 3, 10, 17, 18, 19, 20, 21, 23, 24, 27, 30, 35, 38)},
}


def is_excused(case: str, seed: int) -> bool:
    return (case, seed) in EXCUSED
