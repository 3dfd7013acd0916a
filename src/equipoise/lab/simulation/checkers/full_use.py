"""Full use: while publishers never stop, a limited topic gets at least 99 % of the positions that its envelope allows.

Judged where no hub or link fails, whatever the plan does: from a second after the first position, when the burst is
used up, until publishers stop. Shares that a change of the plan leaves unused for a while count against the 99 %.
"""

from __future__ import annotations

from equipoise.lab.simulation.checkers.violation import Violation
from equipoise.lab.workload.history import History

__all__ = ["NAME", "check", "used_part"]

NAME = "full use"
PART_MIN = 0.99
WARM_UP_S = 1.0


def check(history: History) -> list[Violation]:
    parts = {topic: used_part(history, topic) for topic in sorted(history.envelopes)}
    return [
        Violation(NAME, f"{topic} got {100 * part:.2f} % of the positions that its envelope allows")
        for topic, part in parts.items()
        if part < PART_MIN
    ]


def used_part(history: History, topic: str) -> float:
    """Positions that were given, as a part of those that the rate allows."""
    rate, _ = history.envelopes[topic]
    admitted = sorted(history.admissions.get(topic, []))
    since = admitted[0].at + WARM_UP_S
    allowed = rate * (history.healed_at - since)
    given = sum(one.messages for one in admitted if since <= one.at < history.healed_at)
    # One token may be under way at each end.
    return (given + 1) / allowed
