"""Envelope: over all hubs and incarnations, a limited topic gets at most rate·t + burst positions in any t seconds.

A message counts at the time at which its hub gives it a position or, after a stall of the hub, up to 20 ms earlier. The
run records positions where hubs give them and not where they enforce the limit, so that the checker also detects a path
around the limit.
"""

from __future__ import annotations

from equipoise.lab.simulation.checkers.violation import Violation
from equipoise.lab.workload.history import Admitted, History

__all__ = ["NAME", "check"]

NAME = "envelope"
# Clocks have nanosecond resolution, and times are sums of floats.
SLACK_S = 1e-6


def check(history: History) -> list[Violation]:
    return [
        violation
        for topic, (rate, burst) in sorted(history.envelopes.items())
        for violation in _check_topic(topic, rate, burst, history.admissions.get(topic, []))
    ]


def _check_topic(topic: str, rate: float, burst: int, admitted: list[Admitted]) -> list[Violation]:
    """One bucket over all hubs: its level is negative exactly if some interval has too many. One report per topic."""
    level, last = float(burst), 0.0
    for at, count, hub in sorted(admitted):
        level = min(float(burst), level + (at - last) * rate) - count
        last = at
        if level < -SLACK_S * (rate + 1):
            text = f"{topic} admits {-level:.3f} messages too many at {at:.6f}, the last {count} of them at {hub}"
            return [Violation(NAME, text)]
    return []
