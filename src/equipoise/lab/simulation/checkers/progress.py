"""Progress: after healing every publisher soon has a message acknowledged on each of its topics, and every subscriber
receives that message or a later one."""

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
                    f"{track.name} received no message of {publisher} on {topic} after healing: neither {sequence} "
                    f"nor a later one; its latest is {track.latest(stream)}"
                )
                violations.append(Violation(NAME, text))
    return violations


def _is_owed(history: History, track: Track, stream: Stream, sequence: int) -> bool:
    """Whether the subscription must receive this message of the stream or a later one.

    A filter subscription must if the filter matches an acknowledged message whose publish began after the last
    confirmation of the subscription. The filter may match only every third message, and these may have been sent while
    the subscriber was disconnected, or rejected by the rate limit.
    """
    if track.where is None:
        return True
    since = track.confirmed_at if track.is_live else 0.0
    return any(
        one.outcome is PublishOutcome.ACKNOWLEDGED
        and one.began_at > since
        and track.is_match(stream[0], number)
        for number, one in enumerate(history.sent[stream][sequence:], sequence)
    )
