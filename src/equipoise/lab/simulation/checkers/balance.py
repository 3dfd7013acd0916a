"""Balance: edges of a content topic share subscribers by capacity, move few subscribers twice, and leave every session
that they enter. The stories record the violations, because they know the expected outcome."""

from __future__ import annotations

from equipoise.lab.simulation.checkers.violation import Violation
from equipoise.lab.workload.history import History

__all__ = ["NAME", "check"]

NAME = "balance"


def check(history: History) -> list[Violation]:
    return [Violation(NAME, text) for text in history.unbalanced]
