"""Tokens for XADDs to a rate-limited topic, which do not wait for them as messages do.

Without a free token, or while messages wait for tokens, an XADD is rejected. Then the next token behind those of the
waiting messages is reserved for XADDs: publishers that always wait would take every token otherwise. All XADDs of a
topic are one party of the reservation, because their clients may be at any hub.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from equipoise.hub.cluster.topic_tokens import ADDS, TopicTokens

if TYPE_CHECKING:
    from equipoise.hub.cluster.topic_limit import TopicLimit
    from equipoise.hub.data.topics import Topic

__all__ = ["AddTokens"]


class _Clients(Protocol):
    def refusal(self, topic: Topic, limit: TopicLimit, wait_ns: int | None, count: int) -> bytes: ...


class AddTokens:
    """Owned by RateLimits."""

    def __init__(self, tokens: TopicTokens, clients: _Clients) -> None:
        self._tokens = tokens
        self._clients = clients

    def charge(self, topic: Topic) -> bytes | None:
        """Take the token of an entry of the topic's log; the rejection if there is none for it."""
        limit = topic.limit
        if limit is None:
            return None
        if not topic.is_home:
            return self._clients.refusal(topic, limit, None, 1)
        if self._tokens.kept(limit) and limit.reserve.party == ADDS and self._tokens.has_token(limit):
            limit.reserve.end()
            self._tokens.spend(limit, 1)
            return None
        if self._tokens.room(topic):
            self._tokens.spend(limit, 1)
            return None
        return self._clients.refusal(topic, limit, self._reserve(limit), 1)

    def _reserve(self, limit: TopicLimit) -> int | None:
        """Reserve the token behind the waiting messages; nanoseconds until it is there."""
        now, ahead = self._tokens.now(), limit.ring.total
        # An XADD cannot wait, however long messages may.
        limit.reserve.keep(ADDS, ahead, limit.bucket, now, patience_ns=0)
        return limit.reserve.wait(limit.bucket, ahead + 1, ADDS, now)
