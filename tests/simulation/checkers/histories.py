"""Histories for checker tests, one line per event."""

from __future__ import annotations

from equipoise.lab.workload.history import Event, History, Live, PublishOutcome, Received, Sent, Track

ACK, LOST, FAIL = PublishOutcome.ACKNOWLEDGED, PublishOutcome.UNCERTAIN, PublishOutcome.FAILED


def history(
    outcomes: dict[tuple[str, str], list[PublishOutcome]], *events: Event, is_pattern: bool = False
) -> History:
    """Messages by publisher and topic, number k sent at second k + 1; one subscription that saw these events."""
    made = History()
    for stream, stream_outcomes in outcomes.items():
        made.sent[stream] = [Sent(1.0 + k, outcome) for k, outcome in enumerate(stream_outcomes)]
    topics = tuple(dict.fromkeys(topic for _, topic in outcomes))
    names = ("*",) if is_pattern else topics
    track = Track("ann/0", names, is_pattern=is_pattern, is_smart=True)
    track.events.extend(events)
    made.tracks.append(track)
    return made


LIVE = Live(0.5)


def got(sequence: int, *, topic: str = "t", publisher: str = "p", at: float = 100.0) -> Received:
    return Received(at, topic, publisher, sequence)
