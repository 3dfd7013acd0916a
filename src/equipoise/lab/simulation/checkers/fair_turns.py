"""Fair turns: an occasional publisher of a limited topic does not wait for publishers that never stop.

Judged by when messages arrive: at the 99th percentile within the time of ten tokens, and of those that two hubs may
send ahead to the home, whatever others send and through whichever hub.
"""

from __future__ import annotations

from equipoise.lab.simulation.checkers.violation import Violation
from equipoise.lab.workload.history import History, Received

__all__ = ["NAME", "check"]

NAME = "fair turns"
TURNS_MAX = 10
RELAYS = 2
# What a relay may send ahead beside the burst, in seconds of the rate.
AHEAD_S = 0.1
QUANTILE = 0.99
# The names of those that never stop begin so.
EAGER = "hog"
# Below that a quantile says little.
MESSAGES_MIN = 20


def check(history: History) -> list[Violation]:
    violations: list[Violation] = []
    for (publisher, topic), waited in sorted(_waits(history).items()):
        if len(waited) < MESSAGES_MIN:
            violations.append(Violation(NAME, f"{publisher} got only {len(waited)} messages into {topic}"))
            continue
        rate, burst = history.envelopes[topic]
        most = sorted(waited)[int(QUANTILE * (len(waited) - 1))]
        if most > (TURNS_MAX + RELAYS * (burst + AHEAD_S * rate)) / rate:
            violations.append(Violation(NAME, f"{publisher} waits for {most:.3f} s to publish to {topic}"))
    return violations


def _waits(history: History) -> dict[tuple[str, str], list[float]]:
    """By publisher and limited topic, how long its messages took to the first subscriber."""
    polite = {
        stream: dict[int, float]()
        for stream in history.sent
        if stream[1] in history.envelopes and not stream[0].startswith(EAGER)
    }
    for track in history.tracks:
        for event in track.events:
            if type(event) is Received and (event.publisher, event.topic) in polite:
                stream = event.publisher, event.topic
                waited = event.at - history.sent[stream][event.sequence].began_at
                polite[stream][event.sequence] = min(waited, polite[stream].get(event.sequence, waited))
    return {stream: list(waited.values()) for stream, waited in polite.items()}
