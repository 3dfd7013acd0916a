"""Whether a client's command to a rate-limited topic goes on at once.

If this hub numbers the topic, a command goes on if its messages have tokens. Otherwise it is sent ahead to the home, as
many messages as the envelope would admit there at once (`TopicLimit.window`). A connection that was rejected may use
the token that is reserved for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from equipoise.hub.cluster.link.frames import Tag
from equipoise.hub.cluster.topic_limit import TopicLimit
from equipoise.hub.cluster.topic_tokens import TopicTokens
from equipoise.hub.cluster.turn_estimate import unacked

if TYPE_CHECKING:
    from equipoise.hub.data.topic import Topic

__all__ = ["ClientAdmission"]


class _Routes(Protocol):
    def admit(self, topic: Topic, payloads: Sequence[bytes], after: Sequence[Tag] = ()) -> bool: ...
    def stream_now(self, trunk: Topic) -> Topic: ...


class _Cluster(Protocol):
    @property
    def ways(self) -> _Routes: ...


class ClientAdmission:
    """Owned by LimitedClients."""

    def __init__(self, cluster: _Cluster, tokens: TopicTokens) -> None:
        self._cluster = cluster
        self._tokens = tokens

    def admit_at_once(
        self, topic: Topic, limit: TopicLimit, payloads: Sequence[bytes], after: Sequence[Tag]
    ) -> bool | None:
        """Admit a command at once if it need not wait; False if there is no room for it, None if it has to wait."""
        claimed = self._claim(topic, limit, len(payloads))
        if claimed is not None:
            claimed.granted = 1
        elif limit.queue is not None or not self.passes(topic, limit, len(payloads)):
            return None
        try:
            return self._cluster.ways.admit(topic, payloads, after)
        finally:
            if claimed is not None:
                claimed.granted = 0

    def _claim(self, topic: Topic, limit: TopicLimit, count: int) -> TopicLimit | None:
        """The limit that has reserved a token for the publishing connection, if the token is available and suffices."""
        target = self._cluster.ways.stream_now(topic)
        found, session = target.limit or limit, topic.publisher or 0
        if not self._tokens.kept(found) or found.reserve.party != session or count != 1:
            return None
        if session in limit.client_turns or not self.passes(topic, limit, 1, is_claim=True):
            return None  # Too early: the token stays reserved.
        found.reserve.end()
        return found

    def passes(self, topic: Topic, limit: TopicLimit, count: int, *, is_claim: bool = False) -> bool:
        """Whether `count` messages may be numbered, or sent to the home, at once. `is_claim`: by a reserved token."""
        target = self._cluster.ways.stream_now(topic)
        if target.is_home and target.limit is not None:
            if target.stream is not None and () in target.stream.admission.waiting:
                return False
            return self._tokens.has_token(target.limit) if is_claim else self._tokens.room(target) >= count
        ahead, remote = unacked(topic, target), target.limit or limit
        limit.note_acked(ahead)
        now, has_room = self._tokens.now(), ahead + count <= limit.window(remote.remote_share)
        if not has_room or remote.mirror.tokens(now) < count + (0 if is_claim else self._tokens.kept(remote)):
            return False
        remote.mirror.take(count, now)
        remote.reserve.passed(count)
        limit.note_sent(count)
        return True

    def acked(self, topic: Topic, limit: TopicLimit) -> None:
        """The home has acknowledged messages: record how long that took."""
        if limit.sent_at:
            limit.note_acked(unacked(topic, self._cluster.ways.stream_now(topic)))
