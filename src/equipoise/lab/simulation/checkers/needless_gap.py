"""No needless gap: where no message can be lost, no subscriber receives a gap.

For worlds in which hubs do not die and clients stay connected: moves, replication, ring changes and failures of links
or store are no reason for a gap. A plain subscriber receives no gaps; for it, the hub that it is connected to must not
have counted a loss.
"""

from __future__ import annotations

from equipoise.lab.simulation.checkers.violation import Violation
from equipoise.lab.workload.history import History, Missed

__all__ = ["NAME", "check"]

NAME = "no needless gap"


def check(history: History) -> list[Violation]:
    received = [
        Violation(NAME, f"{track.name} received a gap: {event}")
        for track in history.tracks
        for event in track.events
        if isinstance(event, Missed)
    ]
    counted = [
        Violation(NAME, f"{track.via} counted a loss for {track.name}: {loss}")
        for track in history.tracks
        if not track.is_smart
        for loss in history.losses.get(track.via, ())
        if loss.topic is not None and track.wants(loss.topic)
    ]
    return received + counted
