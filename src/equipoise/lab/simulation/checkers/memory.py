"""Bounded memory: no hub or client ever held more than its limit, of bytes, messages or connections."""

from __future__ import annotations

from equipoise.lab.simulation.checkers.violation import Violation
from equipoise.lab.workload.history import History

__all__ = ["NAME", "check"]

NAME = "bounded memory"


def check(history: History) -> list[Violation]:
    return [
        Violation(NAME, f"{owner} held {peak.peak} of {resource}, which is limited to {peak.bound}")
        for (owner, resource), peak in history.peaks.items()
        if peak.peak > peak.bound
    ]
