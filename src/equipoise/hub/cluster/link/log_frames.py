"""Frames about logs of topics: commands for the owner, its replies, blocking reads.

`calls` and `replies` are lists as encoded by `hub.logs.log_request`.
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
    """Requests to run commands of the sender's clients on the log, all or none, if possible within `wait_ms`."""

    verb = b"EQ.L.CALL"
    capability = LOGS
    topic: bytes
    ticket: int
    wait_ms: int
    calls: bytes


class AnswerFrame(Frame, frozen=True):
    """The next piece of the reply to CALL. Empty and last: the sender does not own the log, and has run nothing."""

    verb = b"EQ.L.ANSWER"
    capability = LOGS
    ticket: int
    is_last: bool
    payloads: Payloads


class WatchFrame(Frame, frozen=True):
    """Requests WOKEN when the log has an entry after the id `since`; `>`: one not delivered to the group."""

    verb = b"EQ.L.WATCH"
    capability = LOGS
    topic: bytes
    ticket: int
    since: bytes
    group: bytes


class WokenFrame(Frame, frozen=True):
    """The reply to WATCH: read again. Also sent when the sender no longer owns the log."""

    verb = b"EQ.L.WOKEN"
    capability = LOGS
    ticket: int


class UnwatchFrame(Frame, frozen=True):
    """Cancels the WATCH with that ticket."""

    verb = b"EQ.L.UNWATCH"
    capability = LOGS
    ticket: int


class OfferFrame(Frame, frozen=True):
    """The log is open at the sender; the receiver, its home, requests the release when ready to open it."""

    verb = b"EQ.L.OFFER"
    capability = OFFERS
    topic: bytes


class ReleaseFrame(Frame, frozen=True):
    """The sender is ready to open the log: close its ledger and release the topic; the reply is RELEASED."""

    verb = b"EQ.L.RELEASE"
    capability = OFFERS
    topic: bytes


class ReleasedFrame(Frame, frozen=True):
    """The topic's node as released by the sender, and its version. Empty: the receiver reads it from the store."""

    verb = b"EQ.L.RELEASED"
    capability = OFFERS
    topic: bytes
    version: int
    node: bytes
