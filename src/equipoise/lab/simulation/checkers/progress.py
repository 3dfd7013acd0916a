"""Progress: once everything is healed, every publisher gets a message acknowledged on each of its topics, and every
subscriber receives that one or a later one, soon."""

from __future__ import annotations

from equipoise.lab.simulation.checkers.violation import Violation
from equipoise.lab.workload.history import History, PublishOutcome, Stream, Track

__all__ = ["NAME", "check"]

NAME = "progress"


def check(history: History) -> list[Violation]:
    violations = [Violation(NAME, text) for text in history.unfinished]
    for stream, sequence in history.markers:
        publisher, topic = stream
        if sequence is None:
            violations.append(Violation(NAME, f"{publisher} could not publish to {topic} after healing"))
            continue
        for track in history.tracks:
            if (
                track.wants(topic)
                and _is_owed(history, track, stream, sequence)
                and not track.has_reached(stream, sequence, history.healed_at)
            ):
                text = (
                    f"{track.name} received nothing of {publisher} on {topic} after healing: neither {sequence} nor "
                    f"a later one; its latest is {track.latest(stream)}"
                )
                violations.append(Violation(NAME, text))
    return violations


def _is_owed(history: History, track: Track, stream: Stream, sequence: int) -> bool:
    """Whether a message from this one on was acknowledged that the filter of the subscription, if any, matches."""
    return track.where is None or any(
        one.outcome is PublishOutcome.ACKNOWLEDGED and track.is_match(stream[0], number)
        for number, one in enumerate(history.sent[stream][sequence:], sequence)
    )
