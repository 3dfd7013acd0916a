"""Order: a subscriber receives each publisher's messages on a topic in the order they were sent.

A smart client whose user was removed and restored opens a new bus, which is a new publisher for all hubs. Messages of
the former bus may still be in flight between hubs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from equipoise.lab.simulation.checkers.violation import Violation
from equipoise.lab.workload.history import History, Received, Sent, Stream, Track

__all__ = ["NAME", "check"]

NAME = "order"


def check(history: History) -> list[Violation]:
    several = {stream: sent for stream, sent in history.sent.items() if len({one.bus for one in sent}) > 1}
    return [violation for track in history.tracks for violation in _check_track(track, several)]


def _check_track(track: Track, several: Mapping[Stream, Sequence[Sent]]) -> list[Violation]:
    """`several`: the streams sent over more than one bus."""
    violations: list[Violation] = []
    # By publisher and topic, and by bus for streams with several.
    highest: dict[tuple[str | int, ...], int] = {}
    for event in track.events:
        if type(event) is not Received:
            continue
        at, topic, publisher, sequence = event
        stream: tuple[str | int, ...] = (publisher, topic)
        if several and (publisher, topic) in several:
            sent = several[publisher, topic]
            stream = (publisher, topic, sent[sequence].bus if sequence < len(sent) else 0)
        before = highest.get(stream, -1)
        # An equal number is a duplicate, which the `once` checker reports.
        if sequence < before:
            text = f"{track.name} received {topic} {publisher} {sequence} at {at:.6f}, after {before}"
            violations.append(Violation(NAME, text))
        else:
            highest[stream] = sequence
    return violations
