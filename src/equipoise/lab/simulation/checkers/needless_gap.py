"""No needless gap: where nothing can have been lost, no subscriber is told that anything was.

For worlds in which hubs do not die and clients stay connected: moves, replication, changes of the ring and trouble with
links or store are no reason for a gap.
"""

from __future__ import annotations

from equipoise.lab.simulation.checkers.violation import Violation
from equipoise.lab.workload.history import History, Missed

__all__ = ["NAME", "check"]

NAME = "no needless gap"


def check(history: History) -> list[Violation]:
    return [
        Violation(NAME, f"{track.name} was told of a gap: {event}")
        for track in history.tracks
        for event in track.events
        if isinstance(event, Missed)
    ]
