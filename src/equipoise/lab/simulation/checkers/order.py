"""Order: a subscriber receives each publisher's messages on a topic in the order they were sent."""

from __future__ import annotations

from equipoise.lab.simulation.checkers.violation import Violation
from equipoise.lab.workload.history import History, Received, Stream, Track

__all__ = ["NAME", "check"]

NAME = "order"


def check(history: History) -> list[Violation]:
    return [violation for track in history.tracks for violation in _check_track(track)]


def _check_track(track: Track) -> list[Violation]:
    violations: list[Violation] = []
    highest: dict[Stream, int] = {}
    for event in track.events:
        if type(event) is not Received:
            continue
        at, topic, publisher, sequence = event
        stream = (publisher, topic)
        before = highest.get(stream, -1)
        # An equal number is a duplicate, which is another checker's business.
        if sequence < before:
            text = f"{track.name} received {topic} {publisher} {sequence} at {at:.6f}, after {before}"
            violations.append(Violation(NAME, text))
        else:
            highest[stream] = sequence
    return violations
