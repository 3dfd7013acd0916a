"""Seeds that are known to fail, by name, each with its reason. The list only shrinks.

A seed is listed when the honest checkers show a fault that is not mended yet. A test demands that each of them still
fails: once mended, it has to go from here.
"""

from __future__ import annotations

__all__ = ["EXCUSED", "is_excused"]

# By case and seed, what is wrong.
EXCUSED: dict[tuple[str, int], str] = {
    (
        "content-trees",
        774,
    ): "needless gap: a hub counts a loss of two messages where none is possible; not traced yet",
    ("content-trees-crashes", 972): "progress: a publisher still waits after healing; not traced yet",
}


def is_excused(case: str, seed: int) -> bool:
    return (case, seed) in EXCUSED
