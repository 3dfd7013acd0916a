"""Fair turns: who publishes to a limited topic now and then does not wait for those who never stop.

Judged by publishers that wait for the receipt of each message: at the 99th percentile it comes within ten tokens' time,
whatever others send and through whichever hub.
"""

from __future__ import annotations

from equipoise.lab.simulation.checkers.violation import Violation
from equipoise.lab.workload.history import History

__all__ = ["NAME", "check"]

NAME = "fair turns"
TURNS_MAX = 10
QUANTILE = 0.99
# The names of those that never stop begin so.
EAGER = "hog"
# Below that a quantile says little.
MESSAGES_MIN = 20


def check(history: History) -> list[Violation]:
    violations: list[Violation] = []
    for (publisher, topic), messages in sorted(history.sent.items()):
        if topic not in history.envelopes or publisher.startswith(EAGER):
            continue
        waited = sorted(one.answered_at - one.began_at for one in messages if one.answered_at is not None)
        if len(waited) < MESSAGES_MIN:
            violations.append(Violation(NAME, f"{publisher} got only {len(waited)} messages into {topic}"))
            continue
        most = waited[int(QUANTILE * (len(waited) - 1))]
        if most > TURNS_MAX / history.envelopes[topic][0]:
            violations.append(Violation(NAME, f"{publisher} waits for {most:.3f} s to publish to {topic}"))
    return violations
