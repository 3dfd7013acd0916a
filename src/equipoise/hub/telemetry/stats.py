"""What a hub counts about itself, and what is wrong with it, for INFO, /healthz and telemetry. Counters only grow.

What happens per message is counted on its topic instead; see TopicIndex.totals.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

__all__ = ["Health", "Stats"]

log = logging.getLogger("equipoise.hub")


@dataclass(slots=True)
class Stats:
    """Plain integers, changed in place where the counted thing happens."""

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


class Health:
    """Owned by HubCore. A hub without problems is healthy."""

    def __init__(self, hub: str) -> None:
        self._hub = hub
        self.problems: dict[str, str] = {}

    def report(self, kind: str, problem: str) -> None:
        """Set the present problem of a kind; an empty text ends it. Each change is logged once."""
        before = self.problems.get(kind, "")
        if problem == before:
            return
        if problem:
            self.problems[kind] = problem
            log.error("hub %s, %s: %s", self._hub, kind, problem)
        else:
            del self.problems[kind]
            log.info("hub %s, %s: well again", self._hub, kind)

    @property
    def text(self) -> str:
        """`ok`, or the problems in one line."""
        return "; ".join(f"{kind}: {problem}" for kind, problem in sorted(self.problems.items())) or "ok"
