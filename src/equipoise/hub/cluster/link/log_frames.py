"""Frames about logs of topics: commands for the owner, its answers, blocking reads.

`calls` and `replies` are lists as `hub.logs.log_request` packs them.
"""

from __future__ import annotations

from equipoise.hub.cluster.link.capability import LOGS
from equipoise.hub.cluster.link.frame import Frame, Payloads

__all__ = ["AnswerFrame", "CallFrame", "UnwatchFrame", "WatchFrame", "WokenFrame"]


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
