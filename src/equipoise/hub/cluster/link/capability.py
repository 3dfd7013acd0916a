"""Names of what a hub can do beyond the frames that every release understands.

A hub announces them when it greets, and ignores the names that it does not know. A frame that needs one says so.
"""

from __future__ import annotations

__all__ = ["CAPABILITIES", "COUNTS", "LEASE", "LIMITS", "LOSS", "PROBE"]

# Answer probes of the distance between hubs.
PROBE = "probe"
# Say to others that they are alive to this hub.
LEASE = "lease"
# Number messages that were lost on their way in.
LOSS = "loss"
# Hear how many subscribers other hubs have.
COUNTS = "counts"
# Keep rate envelopes, and take over the level of a bucket.
LIMITS = "limits"

CAPABILITIES = frozenset({PROBE, LEASE, LOSS, COUNTS, LIMITS})
