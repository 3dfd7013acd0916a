"""Seeds that are known to fail, by name, each with its reason. The list only shrinks.

A seed is listed when the honest checkers show a fault that is not mended yet. A test demands that each of them still
fails: once mended, it has to go from here.
"""

from __future__ import annotations

__all__ = ["EXCUSED", "is_excused"]

# Messages that a hub had acknowledged and that a link gives up for want of room never get a number.
OVERFLOW = "a link that overflows loses messages on the way to their home, and no gap is told"
# Acknowledged messages are missing at a subscriber by name around the death of a hub, and it gets no gap.
UNTOLD = "a hub dies, and a subscriber by name misses messages without a gap"
# After everything is healed, messages of a publisher do not reach subscribers within 20 s.
STUCK = "a topic does not move on after faults and changes of rules are over"
# Moves, replication and breaking links, and no hub has died.
NEEDLESS = "a subscriber of a replicated topic gets a gap though nothing can be missing"

# By case and seed, what is wrong.
EXCUSED: dict[tuple[str, int], str] = {
    **{("cluster-everything", seed): UNTOLD for seed in (106, 109, 202, 203, 312, 336, 350)},
    ("cluster-everything", 281): STUCK,
    # Of seeds 0..25.
    ("cluster-replication-crashes", 7): UNTOLD,
    ("cluster-replication-everything", 14): UNTOLD,
    ("cluster-followers-crashes", 7): UNTOLD,
    ("cluster-routed-everything", 5): UNTOLD,
    ("cluster-routed-replication", 117): NEEDLESS,
    # Of seeds 0..40.
    **{("cluster-narrow", seed): OVERFLOW for seed in (1, 3, 10, 17, 18, 19, 20, 21, 23, 24, 27, 30, 35, 38)},
}


def is_excused(case: str, seed: int) -> bool:
    return (case, seed) in EXCUSED
