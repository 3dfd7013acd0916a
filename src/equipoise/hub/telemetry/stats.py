"""What a hub counts about itself, for INFO and telemetry. Counters only grow.

What happens per message is counted on its topic instead; see TopicIndex.totals.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Stats:
    """Plain integers, changed in place by whoever does the counted thing."""

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
