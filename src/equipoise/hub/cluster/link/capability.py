"""Names of the capabilities beyond the frames that every release supports.

A hub announces them when it greets, and ignores the names that it does not know. A frame that needs one says so.
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

# Answer probes of the distance between hubs.
PROBE = "probe"
# Say to others that they are alive to this hub.
LEASE = "lease"
# Number messages that were lost on their way in.
LOSS = "loss"
# Go on with a gap of unknown size where it is not known how many messages were lost.
TEAR = "tear"
# Hear that messages of a topic are lost for which another hub had no room.
MISSED = "missed"
# Hear that a hub stops with nothing under way.
LEAVE = "leave"
# Hear how many subscribers other hubs have.
COUNTS = "counts"
# Keep rate envelopes, and take over the level of a bucket.
LIMITS = "limits"
# Own logs of topics, and run commands on them for clients of other hubs.
LOGS = "logs"
# Take a log over when its owner offers it, and release one when its next owner asks.
OFFERS = "offers"
# Send of a stream only what filters match, and take it so.
CONTENT = "content"

# Take messages for `$at/HUB/…` topics of this hub on a link of their own.
CONTROL = "control"

# Say which messages of other hubs it has seen of a home that died, so that those that no hub has seen are sent again.
RESEND = "resend"
# Take messages back that wait for tokens in a lane that ends.
RETURN = "return"
# Return what waits for tokens to a hub that asks for it.
RECALL = "recall"
# Take over the tokens that a lane still had when it ended.
REMAINDER = "remainder"

# Deal smart publishers of a split topic to its homes, and tell them.
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
