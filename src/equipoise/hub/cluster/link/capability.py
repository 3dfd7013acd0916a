"""Names of the capabilities beyond the frames that every release supports.

A hub announces them in the handshake, and ignores unknown names. A frame class names the capability that it needs.
"""

from __future__ import annotations

__all__ = [
    "CAPABILITIES",
    "CONTENT",
    "CONTROL",
    "COUNTS",
    "LEASE",
    "LEAVE",
    "LIMITS",
    "LOGS",
    "LOSS",
    "MISSED",
    "OFFERS",
    "PROBE",
    "RECALL",
    "REMAINDER",
    "RESEND",
    "RETURN",
    "SEATS",
    "TEAR",
    "TREES",
]

# Reply to probes of the round trip between hubs.
PROBE = "probe"
# Confirm to other hubs that they are alive to this hub.
LEASE = "lease"
# Number messages that were lost on the way to the home.
LOSS = "loss"
# Continue with a gap of unknown size if the number of lost messages is unknown.
TEAR = "tear"
# Handle the loss of messages of a topic for which another hub had no room.
MISSED = "missed"
# Handle the orderly shutdown of a hub.
LEAVE = "leave"
# Receive the subscriber counts of other hubs.
COUNTS = "counts"
# Enforce rate envelopes, and take over the level of a bucket.
LIMITS = "limits"
# Own logs of topics, and run commands on them for clients of other hubs.
LOGS = "logs"
# Take over a log that its owner offers, and release one on request of its next owner.
OFFERS = "offers"
# Send and receive only the messages of a stream that filters match.
CONTENT = "content"

# Receive messages for `$at/HUB/…` topics of this hub on a control link.
CONTROL = "control"

# Report which messages of other hubs it has received from a dead home, so that those that no hub has are resent.
RESEND = "resend"
# Take back messages that wait for tokens in a lane that ends.
RETURN = "return"
# Return messages that wait for tokens to a hub that requests them.
RECALL = "recall"
# Take over the remaining tokens of a lane that ended.
REMAINDER = "remainder"

# Assign smart publishers of a split topic to its homes, and redirect them.
SEATS = "seats"

# Follow content topics along a tree.
TREES = "trees"

CAPABILITIES = frozenset(
    {
        PROBE,
        LEASE,
        LOSS,
        TEAR,
        MISSED,
        LEAVE,
        COUNTS,
        LIMITS,
        LOGS,
        OFFERS,
        CONTENT,
        CONTROL,
        RESEND,
        RETURN,
        RECALL,
        REMAINDER,
        SEATS,
        TREES,
    }
)
