"""Held up: messages of a smart client that wait for tokens do not delay receipts of its other topics.

For worlds without failures of hubs and links. Applies to unlimited topics whose publishers also publish to a limited
topic.
"""

from __future__ import annotations

from equipoise.lab.simulation.checkers.violation import Violation
from equipoise.lab.workload.history import History

__all__ = ["NAME", "check"]

NAME = "held up"
# Ten times the round trip through a hub to the home in these worlds.
RECEIPT_S_MAX = 0.25
QUANTILE = 0.99
# With fewer receipts a quantile means little.
MESSAGES_MIN = 20


def check(history: History) -> list[Violation]:
    violations: list[Violation] = []
    limited = {publisher for publisher, topic in history.sent if topic in history.envelopes}
    for (publisher, topic), messages in sorted(history.sent.items()):
        if topic in history.envelopes or publisher not in limited:
            continue
        took = sorted(sent.answered_at - sent.began_at for sent in messages if sent.answered_at is not None)
        if len(took) < MESSAGES_MIN:
            violations.append(Violation(NAME, f"{publisher} received only {len(took)} receipts for {topic}"))
        elif (most := took[int(QUANTILE * (len(took) - 1))]) > RECEIPT_S_MAX:
            violations.append(
                Violation(NAME, f"{publisher} waits up to {most:.3f} s for a receipt of {topic}")
            )
    return violations
