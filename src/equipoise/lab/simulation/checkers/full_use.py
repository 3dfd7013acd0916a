"""Full use: under publishers that always have messages, a limited topic gets at least 99 % of its allowed positions.

For worlds without failures of hubs and links, under any plan change. The measured interval begins a second after the
first position, when the burst is used up, and ends when publishers stop. Shares that a plan change leaves unused for a
while count as unused. The fraction of a token that each hub of a split topic holds at the end does not.
"""

from __future__ import annotations

from equipoise.lab.simulation.checkers.violation import Violation
from equipoise.lab.workload.history import History

__all__ = ["NAME", "check", "used_part"]

NAME = "full use"
PART_MIN = 0.99
WARM_UP_S = 1.0
# The longest time between two positions of one hub: the smallest share is 0.5/s.
_TURN_S = 2.0


def check(history: History) -> list[Violation]:
    parts = {topic: used_part(history, topic) for topic in sorted(history.envelopes)}
    return [
        Violation(NAME, f"{topic} got {100 * part:.2f} % of the positions that its envelope allows")
        for topic, part in parts.items()
        if part < PART_MIN
    ]


def used_part(history: History, topic: str) -> float:
    """The fraction of the allowed positions that the hubs gave."""
    rate, _ = history.envelopes[topic]
    admitted = sorted(history.admissions.get(topic, []))
    since = admitted[0].at + WARM_UP_S
    allowed = rate * (history.healed_at - since)
    judged = [one for one in admitted if since <= one.at < history.healed_at]
    sharing = {one.hub for one in judged if one.at >= history.healed_at - _TURN_S}
    return (sum(one.messages for one in judged) + len(sharing)) / allowed
