"""The tokens of limited topics at one hub: which messages it may number now, and what they are charged.

A message takes a token of its topic's bucket when it is numbered. Tokens count only while the hub holds the lease: two
hubs that both number a topic's messages would admit more than its envelope.

Always true: no message of a limited topic is numbered here without a token, nor without the lease.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from equipoise.hub.cluster.stall_watch import StallWatch
from equipoise.hub.cluster.topic_limit import Admissions, TopicLimit
from equipoise.limits import nanoseconds

if TYPE_CHECKING:
    from equipoise.hub.core import HubCore
    from equipoise.hub.data.topic import Topic

__all__ = ["ADDS", "LOOK_NS", "TopicTokens"]

# The party of all XADDs of a topic in a reservation. Other parties are ids of sessions, which are positive.
ADDS = -1

# Interval of the check of topics that wait for another hub, the lease or a share, in nanoseconds.
LOOK_NS = 50_000_000


class TopicTokens:
    """Owned by RateLimits."""

    def __init__(self, core: HubCore) -> None:
        self._core = core
        self.admissions = Admissions()
        self.stalls = StallWatch(core.shell)
        self._held_until = -1
        # The time at which the current serving began; 0: none is in progress.
        self.serving_at = 0

    def now(self) -> int:
        """Monotonic nanoseconds; constant while waiting commands are served, which counts as one moment."""
        return self.serving_at or nanoseconds(self._core.shell.fine_now())

    def close(self) -> None:
        self.admissions.take_back()
        self.stalls.close()

    def room(self, topic: Topic) -> int:
        """Tokens for the next messages: those granted to the current turn, else those of a bucket without waiters."""
        limit = topic.limit
        assert limit is not None, "asked of limited topics"
        if limit.granted:
            return limit.granted
        now = self.now()
        if limit.ring or not self.holds_lease(now):
            return 0
        return max(0, limit.bucket.tokens(now, self.stalls.since(now)) - self.kept(limit))

    def has_token(self, limit: TopicLimit) -> bool:
        """Whether this hub may number a message of the stream, regardless of waiting parties."""
        now = self.now()
        return self.holds_lease(now) and limit.bucket.tokens(now) > 0

    def kept(self, limit: TopicLimit) -> int:
        """Number of tokens reserved for a connection, or for XADDs, that were rejected."""
        reserve = limit.reserve
        if reserve.party is None:
            return 0
        if reserve.party != ADDS and reserve.party not in self._core.sessions:
            reserve.end()
        return reserve.kept(self.now())

    def spend(self, limit: TopicLimit, count: int) -> None:
        """Charge messages that are about to be numbered."""
        now = self.now()
        is_paid = limit.take(count, now, self.stalls.since(now))
        assert is_paid, "the gate has counted the tokens"
        limit.reserve.passed(count)
        if limit.can_overflow:
            self.stalls.used()

    def take(self, topic: Topic, count: int) -> bool:
        """Take the tokens of `count` messages that a client publishes now, if they may be numbered at once."""
        limit = _direct_limit(topic)
        if limit is None:
            return False
        now = self.now()
        if not self.holds_lease(now) or not limit.take(count, now, self.stalls.since(now)):
            return False
        self.stalls.used()
        return True

    def give_back(self, topic: Topic, count: int) -> None:
        """Return tokens that were just taken and not used."""
        if topic.limit is not None:
            topic.limit.give_back(count)

    def lend(self, topic: Topic) -> None:
        """Let the compiled part admit messages by itself for some milliseconds, if they need no other check."""
        limit = _direct_limit(topic)
        if limit is None:
            return
        now = self.now()
        if self.holds_lease(now):
            self.stalls.used()
            limit.lend(now, self._held_until, self.stalls)

    @property
    def admitted(self) -> int:
        """Number of messages of limited topics numbered here."""
        return self.admissions.count

    def holds_lease(self, now: int) -> bool:
        if now >= self._held_until:
            seconds = self._core.now()
            until = min(self._core.lease.held_until(), seconds + LOOK_NS / 1e9)
            self._held_until = now + nanoseconds(until - seconds) if until > seconds else -1
        return now < self._held_until


def _direct_limit(topic: Topic) -> TopicLimit | None:
    """The topic's limit, if messages with tokens need not wait for anything else."""
    limit = topic.limit
    return limit if limit is not None and limit.is_direct and topic.stream is None else None
