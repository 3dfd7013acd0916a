"""Counters of a hub's logs."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["LogCounters"]


@dataclass(slots=True)
class LogCounters:
    """What became of the appends of all logs of a hub, since it started."""

    commits: int = 0
    # From the append to its confirmation, in seconds, summed up.
    commit_s: float = 0.0
    # How often a log was thrown away after a failed append, and folded anew.
    failures: int = 0
