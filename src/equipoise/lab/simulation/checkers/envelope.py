"""Envelope: over all hubs and all their lives, a limited topic gets at most rate·t + burst positions in any t seconds.

By the times at which messages count as having come: now, or while their hub stood still, 20 ms ago at most. Seen where
positions are given, not where the limit is kept: a path around the gate shows here like a wrong bucket.
"""

from __future__ import annotations

from equipoise.lab.simulation.checkers.violation import Violation
from equipoise.lab.workload.history import Admitted, History

__all__ = ["NAME", "check"]

NAME = "envelope"
# A clock is read to the nanosecond, and a moment is a sum of floats.
SLACK_S = 1e-6


def check(history: History) -> list[Violation]:
    return [
        violation
        for topic, (rate, burst) in sorted(history.envelopes.items())
        for violation in _check_topic(topic, rate, burst, history.admissions.get(topic, []))
    ]


def _check_topic(topic: str, rate: float, burst: int, admitted: list[Admitted]) -> list[Violation]:
    """A bucket over everything: it is overdrawn exactly if some interval has too many. Told once per topic."""
    level, last = float(burst), 0.0
    for at, count, hub in sorted(admitted):
        level = min(float(burst), level + (at - last) * rate) - count
        last = at
        if level < -SLACK_S * (rate + 1):
            text = f"{topic} admits {-level:.3f} messages too many at {at:.6f}, the last {count} of them at {hub}"
            return [Violation(NAME, text)]
    return []
