"""Estimate when a waiting command has its turn: at the home by its ring of turns, elsewhere by the home's rate.

Commands are rejected by this estimate, and the error text includes it (`LimitedClients._judge`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from equipoise.hub.cluster.topic_limit import CLIENTS, TopicLimit
from equipoise.limits import TOKEN

if TYPE_CHECKING:
    from equipoise.hub.cluster.client_queue import PendingPublish
    from equipoise.hub.data.topic import Topic

__all__ = ["TurnEstimate", "unacked"]


class _Routes(Protocol):
    def stream_now(self, trunk: Topic) -> Topic: ...


class _Cluster(Protocol):
    @property
    def ways(self) -> _Routes: ...


class TurnEstimate:
    """Owned by LimitedClients."""

    def __init__(self, cluster: _Cluster) -> None:
        self._cluster = cluster

    def wait(self, topic: Topic, limit: TopicLimit, one: PendingPublish, now: int) -> int | None:
        """Nanoseconds until the last message of a command has its turn; None: unknown.

        If even the last turn of its round is within the command's waiting time, that upper bound is returned.
        """
        target = self._cluster.ways.stream_now(topic)
        if not target.is_home or target.limit is None:
            return self._wait_remote(topic, target, limit, one, now)
        connections, ring = max(1, len(limit.client_turns)), target.limit.ring
        bucket, reserve = target.limit.bucket, target.limit.reserve
        own = ring.weight(CLIENTS)
        others = ring.total - own
        at_most = reserve.wait(bucket, one.left * (connections + others), one.session, now)
        if at_most is not None and at_most <= limit.wait_ns:
            return at_most
        before = limit.client_turns.turns_before(one.session)
        # All clients of this hub have consecutive turns.
        others_before = ring.turns_before(CLIENTS) if before < max(1, own) else others
        turns = (one.left - 1) * (connections + others) + before + others_before + 1
        return reserve.wait(bucket, turns, one.session, now)

    def _wait_remote(
        self, topic: Topic, target: Topic, limit: TopicLimit, one: PendingPublish, now: int
    ) -> int | None:
        connections = max(1, len(limit.client_turns))
        turns = (one.left - 1) * connections + limit.client_turns.turns_before(one.session) + 1
        remote = target.limit or limit
        by_tokens = remote.reserve.wait(remote.mirror, turns, one.session, now)
        over = unacked(topic, target) + turns - limit.window(remote.remote_share)
        by_window = max(0, over * TOKEN // max(1, remote.remote_share.rate))
        return max(by_tokens or 0, by_window)

    def reserve(self, topic: Topic, limit: TopicLimit, session: int, now: int) -> None:
        """Reserve a token, behind the waiting connections, for the retry of a connection that is rejected."""
        target = self._cluster.ways.stream_now(topic)
        found, ahead = target.limit or limit, max(0, len(limit.client_turns) - 1)
        if target.is_home:
            ahead += found.ring.total - found.ring.weight(CLIENTS)
        bucket = found.bucket if target.is_home else found.mirror
        found.reserve.keep(session, ahead, bucket, now, limit.wait_ns)


def unacked(topic: Topic, target: Topic) -> int:
    """Number of unacknowledged messages of this hub's clients, in the trunk and in their current stream."""
    streams = {id(one.stream): one.stream for one in (topic, target) if one.stream is not None}
    routing = 0 if topic.stream is None else sum(one.messages for one in topic.stream.admission.routing)
    return routing + sum(stream.admission.outstanding(()) for stream in streams.values())
