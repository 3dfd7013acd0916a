"""Drop followed streams, patterns and ended lanes that no client of this hub needs.

Runs in slices, because a hub may have a hundred thousand topics.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

from equipoise.hub.cluster.lane_state import Lane
from equipoise.hub.cluster.ports import ClusterPort
from equipoise.hub.cluster.streams import State
from equipoise.hub.data.turns import LongWork

if TYPE_CHECKING:
    from equipoise.hub.cluster.streams import Stream
    from equipoise.hub.data.ports import Timer
    from equipoise.hub.data.topics import Topic

__all__ = ["TIDY_SLICE", "StreamGc"]

# Topics visited in one step: one to two milliseconds.
TIDY_SLICE = 1_000


class _Failover(Protocol):
    def report(self, stream: Stream) -> None: ...


class _Interests(Protocol):
    def review(self, topic: Topic) -> None: ...


class _Lanes(Protocol):
    def settle(self) -> None: ...
    def tidy(self, topic: Topic) -> None: ...
    def unfollowed(self, lane: Lane) -> None: ...


class _Subscriptions(Protocol):
    def claimed(self) -> tuple[set[bytes], set[bytes]]: ...
    def is_kept(self, topic: Topic) -> bool: ...


class _Relays(Protocol):
    def unfollow(self, stream: Stream) -> None: ...


class _Positions(Protocol):
    def tidy(self) -> None: ...


class _Patterns(Protocol):
    def tidy(self, claimed: set[bytes]) -> None: ...


class _Cluster(ClusterPort, Protocol):
    @property
    def position_queries(self) -> _Positions: ...
    @property
    def failover(self) -> _Failover: ...
    @property
    def interests(self) -> _Interests: ...
    @property
    def lanes(self) -> _Lanes: ...
    @property
    def subscriptions(self) -> _Subscriptions: ...
    @property
    def merging(self) -> _Relays: ...
    @property
    def patterns(self) -> _Patterns: ...


class StreamGc:
    """Part of one cluster."""

    def __init__(self, cluster: _Cluster, interval_s: float) -> None:
        self._cluster = cluster
        self._interval_s = interval_s
        self._work = LongWork(cluster.core.turns)
        self._timer: Timer = cluster.core.shell.call_later(interval_s, self._begin)

    def close(self) -> None:
        self._timer.cancel()
        self._work.cancel()

    def _begin(self) -> None:
        index = self._cluster.core.index
        self._work.run(self._steps([*index.topics.values(), *index.lanes.values()]), self._rest)

    def _steps(self, topics: Sequence[Topic]) -> Iterator[None]:
        for start in range(0, len(topics), TIDY_SLICE):
            claimed, _ = self._cluster.subscriptions.claimed()
            for topic in topics[start : start + TIDY_SLICE]:
                self._visit(topic, is_claimed=topic.name in claimed)
            if start + TIDY_SLICE < len(topics):
                yield

    def _rest(self) -> None:
        _, patterns = self._cluster.subscriptions.claimed()
        self._cluster.position_queries.tidy()
        self._cluster.lanes.settle()
        self._cluster.patterns.tidy(patterns)
        self._timer = self._cluster.core.shell.call_later(self._interval_s, self._begin)

    def _visit(self, topic: Topic, *, is_claimed: bool) -> None:
        if topic.stream is None and topic.beside is None:
            return
        cluster, index = self._cluster, self._cluster.core.index
        if (index.lanes if topic.lane else index.topics).get(topic.key) is not topic:
            return
        cluster.news.tell(topic)
        stream = topic.stream
        if stream is not None and stream.state is State.REMOTE and not is_claimed:
            stream.is_kept = cluster.subscriptions.is_kept(topic)
            if not stream.is_wanted:
                cluster.failover.report(stream)
                cluster.merging.unfollow(stream)
                if isinstance(topic, Lane):
                    cluster.lanes.unfollowed(topic)
        if not topic.lane:
            cluster.interests.review(topic)
            cluster.lanes.tidy(topic)
