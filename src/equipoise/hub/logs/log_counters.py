"""Counters of a hub's logs."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["LogCounters"]


@dataclass(slots=True)
class LogCounters:
    """Results of the appends to all logs of a hub, since it started."""

    commits: int = 0
    # The sum of the times from an append to its confirmation, in seconds.
    commit_s: float = 0.0
    # How often a log was discarded after a failed append, and read again from its ledger.
    failures: int = 0
