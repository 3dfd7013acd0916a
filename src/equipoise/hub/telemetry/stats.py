"""Counters and health of a hub, for INFO, /healthz and telemetry. Counters only grow.

What happens per message is counted on its topic instead; see TopicIndex.totals.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

__all__ = ["Health", "Stats"]

log = logging.getLogger("equipoise.hub")


@dataclass(slots=True)
class Stats:
    """Plain numbers, changed in place where the counted thing happens."""

    connections: int = 0
    connections_refused: int = 0
    connections_paced: int = 0
    commands: int = 0
    errors: int = 0
    protocol_errors: int = 0
    denied: int = 0
    logins_failed: int = 0
    input_bytes: int = 0
    # Replies and what answers subscriptions, those to a mere burst of publishes left out.
    reply_bytes: int = 0
    revoked: int = 0
    # Collections of garbage while messages may flow: all, those of more than a millisecond by the clock and by CPU
    # time, how long they took; and collections of everything at a quiet moment.
    gc_pauses: int = 0
    gc_pauses_long: int = 0
    gc_pauses_long_cpu: int = 0
    gc_pause_s: float = 0.0
    gc_pause_s_max: float = 0.0
    gc_full: int = 0


class Health:
    """What is wrong, in words, one entry per kind of problem. Owned by HubCore."""

    def __init__(self, hub: str) -> None:
        self._hub = hub
        self.problems: dict[str, str] = {}
        # Kinds of problems that keep this hub from serving its clients: /healthz answers 503.
        self._grave: set[str] = set()

    @property
    def is_serving(self) -> bool:
        return not self._grave

    def report(self, kind: str, problem: str, *, is_grave: bool = True) -> None:
        """Set the present problem of a kind; an empty text ends it. Each change is logged once.

        A grave one keeps the hub from serving its clients; others concern its surroundings.
        """
        if problem == self.problems.get(kind, ""):
            return
        self._grave.discard(kind)
        if problem:
            self.problems[kind] = problem
            if is_grave:
                self._grave.add(kind)
            log.error("hub %s, %s: %s", self._hub, kind, problem)
        else:
            del self.problems[kind]
            log.info("hub %s, %s: resolved", self._hub, kind)

    @property
    def text(self) -> str:
        """`ok`, or the problems in one line."""
        return "; ".join(f"{kind}: {problem}" for kind, problem in sorted(self.problems.items())) or "ok"
