"""Seeds that are known to fail, by name, each with its reason. The list only shrinks.

A seed is listed when a checker finds a fault that is not fixed yet. A test checks that each listed seed still fails,
so a fix must remove its seeds from the list.
"""

from __future__ import annotations

__all__ = ["EXCUSED", "is_excused"]

# By case and seed, the fault.
EXCUSED: dict[tuple[str, int], str] = {}


def is_excused(case: str, seed: int) -> bool:
    return (case, seed) in EXCUSED
