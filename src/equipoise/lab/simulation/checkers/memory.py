"""Bounded memory: no hub or client ever held more than its limit, of bytes, messages or connections."""

from __future__ import annotations

from equipoise.lab.simulation.checkers.violation import Violation
from equipoise.lab.workload.history import History

__all__ = ["NAME", "check"]

NAME = "bounded memory"


def check(history: History) -> list[Violation]:
    return [
        Violation(NAME, f"{who} held {held.peak} of {what}, which is limited to {held.bound}")
        for (who, what), held in history.held.items()
        if held.peak > held.bound
    ]
