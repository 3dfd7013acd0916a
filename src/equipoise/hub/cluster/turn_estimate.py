"""When a command that waits for tokens has its turn: for the home by its ring, elsewhere by what the home lets pass.

A command is refused by this estimate, and an error names it (`LimitedClients._judge`).
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

        If even the last turn of that round comes within the time that the command may wait, its own is not looked for.
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
        # All clients of this hub have their turns in a row.
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
        """Keep a token for a connection that is refused, behind those that wait now, until it tries again."""
        target = self._cluster.ways.stream_now(topic)
        found, ahead = target.limit or limit, max(0, len(limit.client_turns) - 1)
        if target.is_home:
            ahead += found.ring.total - found.ring.weight(CLIENTS)
        bucket = found.bucket if target.is_home else found.mirror
        found.reserve.keep(session, ahead, bucket, now, limit.wait_ns)


def unacked(topic: Topic, target: Topic) -> int:
    """Messages of this hub's clients that are not acknowledged, in the trunk and the stream they go to."""
    streams = {id(one.stream): one.stream for one in (topic, target) if one.stream is not None}
    routing = 0 if topic.stream is None else sum(one.messages for one in topic.stream.admission.routing)
    return routing + sum(stream.admission.outstanding(()) for stream in streams.values())
