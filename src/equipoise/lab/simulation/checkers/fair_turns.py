"""Fair turns: an occasional publisher of a limited topic does not wait for publishers that always have messages.

The 99th percentile of the time until messages arrive must be within ten tokens plus the tokens of the messages that two
hubs may send ahead to the home, regardless of the load and the hubs of other publishers.
"""

from __future__ import annotations

from equipoise.lab.simulation.checkers.violation import Violation
from equipoise.lab.workload.history import History, Received

__all__ = ["NAME", "check"]

NAME = "fair turns"
TURNS_MAX = 10
RELAYS = 2
# Messages that a relay may send ahead beside the burst, in seconds of the rate.
AHEAD_S = 0.1
QUANTILE = 0.99
# Name prefix of publishers that always have messages.
EAGER = "hog"
# With fewer messages a quantile means little.
MESSAGES_MIN = 20


def check(history: History) -> list[Violation]:
    violations: list[Violation] = []
    for (publisher, topic), waited in sorted(_waits(history).items()):
        if len(waited) < MESSAGES_MIN:
            violations.append(
                Violation(NAME, f"only {len(waited)} messages of {publisher} arrived on {topic}")
            )
            continue
        rate, burst = history.envelopes[topic]
        most = sorted(waited)[int(QUANTILE * (len(waited) - 1))]
        if most > (TURNS_MAX + RELAYS * (burst + AHEAD_S * rate)) / rate:
            violations.append(Violation(NAME, f"messages of {publisher} on {topic} wait up to {most:.3f} s"))
    return violations


def _waits(history: History) -> dict[tuple[str, str], list[float]]:
    """By publisher and limited topic, the delay of its messages to the first subscriber."""
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
