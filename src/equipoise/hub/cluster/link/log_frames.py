"""Frames about logs of topics: commands for the owner, its answers, blocking reads.

`calls` and `replies` are lists as `hub.logs.log_request` packs them.
"""

from __future__ import annotations

from equipoise.hub.cluster.link.capability import LOGS, OFFERS
from equipoise.hub.cluster.link.frame import Frame, Payloads

__all__ = [
    "AnswerFrame",
    "CallFrame",
    "OfferFrame",
    "ReleaseFrame",
    "ReleasedFrame",
    "UnwatchFrame",
    "WatchFrame",
    "WokenFrame",
]


class CallFrame(Frame, frozen=True):
    """Run these commands of my clients on the log, all or none of them, if you can begin within `wait_ms`."""

    verb = b"EQ.L.CALL"
    capability = LOGS
    topic: bytes
    ticket: int
    wait_ms: int
    calls: bytes


class AnswerFrame(Frame, frozen=True):
    """The next piece of the answer to CALL. Empty and last: the sender does not own the log, and has run nothing."""

    verb = b"EQ.L.ANSWER"
    capability = LOGS
    ticket: int
    is_last: bool
    payloads: Payloads


class WatchFrame(Frame, frozen=True):
    """Answer WOKEN when the log has an entry behind the id `since`; `>`: one that the group has not got."""

    verb = b"EQ.L.WATCH"
    capability = LOGS
    topic: bytes
    ticket: int
    since: bytes
    group: bytes


class WokenFrame(Frame, frozen=True):
    """The answer to WATCH: look again. Sent, too, when the sender does not own the log any more."""

    verb = b"EQ.L.WOKEN"
    capability = LOGS
    ticket: int


class UnwatchFrame(Frame, frozen=True):
    """The question of that number need not be answered."""

    verb = b"EQ.L.UNWATCH"
    capability = LOGS
    ticket: int


class OfferFrame(Frame, frozen=True):
    """The log is open here, and you are its home: ask for its release when you are ready to open it."""

    verb = b"EQ.L.OFFER"
    capability = OFFERS
    topic: bytes


class ReleaseFrame(Frame, frozen=True):
    """I am ready to open the log: close its ledger, release the topic in the store, and answer RELEASED."""

    verb = b"EQ.L.RELEASE"
    capability = OFFERS
    topic: bytes


class ReleasedFrame(Frame, frozen=True):
    """The topic's node as the sender has released it, and its version. Empty: read it in the store."""

    verb = b"EQ.L.RELEASED"
    capability = OFFERS
    topic: bytes
    version: int
    node: bytes
