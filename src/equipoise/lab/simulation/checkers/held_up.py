"""Held up: a smart client's topic that waits for tokens does not delay receipts of its other topics.

Judged where no hub or link fails: of topics without an envelope, whose publishers also publish to one that has one.
"""

from __future__ import annotations

from equipoise.lab.simulation.checkers.violation import Violation
from equipoise.lab.workload.history import History

__all__ = ["NAME", "check"]

NAME = "held up"
# Round trips to a hub and from there to the home take a tenth of that in these worlds.
RECEIPT_S_MAX = 0.25
QUANTILE = 0.99
# Below that a quantile says little.
MESSAGES_MIN = 20


def check(history: History) -> list[Violation]:
    violations: list[Violation] = []
    limited = {publisher for publisher, topic in history.sent if topic in history.envelopes}
    for (publisher, topic), messages in sorted(history.sent.items()):
        if topic in history.envelopes or publisher not in limited:
            continue
        took = sorted(sent.answered_at - sent.began_at for sent in messages if sent.answered_at is not None)
        if len(took) < MESSAGES_MIN:
            violations.append(Violation(NAME, f"{publisher} got only {len(took)} receipts for {topic}"))
        elif (most := took[int(QUANTILE * (len(took) - 1))]) > RECEIPT_S_MAX:
            violations.append(Violation(NAME, f"{publisher} waits for {most:.3f} s for a receipt of {topic}"))
    return violations
