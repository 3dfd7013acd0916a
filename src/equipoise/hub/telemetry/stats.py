"""Counters and health of a hub, for INFO, /healthz and telemetry. Counters only grow.

Messages are counted on their topics instead; see TopicIndex.totals.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

__all__ = ["Health", "Stats"]

log = logging.getLogger("equipoise.hub")


@dataclass(slots=True)
class Stats:
    """Counters, incremented in place by the code that they count."""

    connections: int = 0
    connections_refused: int = 0
    connections_paced: int = 0
    commands: int = 0
    errors: int = 0
    protocol_errors: int = 0
    denied: int = 0
    logins_failed: int = 0
    input_bytes: int = 0
    # Bytes of replies and of confirmations of subscriptions, without the replies to batches of PUBLISH.
    reply_bytes: int = 0
    revoked: int = 0
    # Young garbage collections: all, those above a millisecond by the clock and by CPU time, their total and longest
    # time; and full collections, at quiet times.
    gc_pauses: int = 0
    gc_pauses_long: int = 0
    gc_pauses_long_cpu: int = 0
    gc_pause_s: float = 0.0
    gc_pause_s_max: float = 0.0
    gc_full: int = 0


class Health:
    """The current problems as text, one per kind. Owned by HubCore."""

    def __init__(self, hub: str) -> None:
        self._hub = hub
        self.problems: dict[str, str] = {}
        # Kinds of problems that prevent this hub from serving its clients: /healthz returns 503.
        self._grave: set[str] = set()

    @property
    def is_serving(self) -> bool:
        return not self._grave

    def report(self, kind: str, problem: str, *, is_grave: bool = True) -> None:
        """Set the current problem of a kind; an empty text clears it. Each change is logged once.

        A grave problem prevents the hub from serving its clients.
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
