"""Query the positions of content topics at their heads, for new subscribers at other hubs of the tree.

A follower of a home begins at the home's current position; a follower of a hub in a tree begins at that hub's own
position. So one edge may be far behind another. A subscriber that migrates from a faster edge would receive messages
twice, and one that subscribes after a message was acknowledged would receive that message. So an edge confirms a
subscription only once it has reached the position of the home at a time after the request. The home of a durable topic
may still have to send messages of its log.

Always true: a reply answers a query that was sent after all its waiters had arrived.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from equipoise.hub.cluster.ports import ClusterPort
from equipoise.stream.position import TRUNK

if TYPE_CHECKING:
    from equipoise.hub.data.topics import Topic

__all__ = ["HomeAnswer", "HomePositions"]


class HomeAnswer:
    """The reply to one query, and its waiters."""

    def __init__(self) -> None:
        self.is_there = False
        self.waiters: list[Callable[[], None]] = []


class _Queries(Protocol):
    def position(
        self,
        trunk: Topic,
        stream: bytes,
        answer: Callable[[int, int], object],
        is_wanted: Callable[[], bool],
    ) -> None: ...


class _Cluster(ClusterPort, Protocol):
    @property
    def position_queries(self) -> _Queries: ...


class HomePositions:
    """Part of one cluster. Per topic, one query is in progress, and at most one more waits for its reply."""

    def __init__(self, cluster: _Cluster) -> None:
        self._cluster = cluster
        self._asked: dict[Topic, HomeAnswer] = {}
        self._next: dict[Topic, HomeAnswer] = {}

    def ask(self, topic: Topic) -> HomeAnswer:
        """Query the position of the home. After the reply, the stream is established here only beyond that position."""
        if topic in self._asked:
            return self._next.setdefault(topic, HomeAnswer())
        answer = HomeAnswer()
        self._send(topic, answer)
        return answer

    def _send(self, topic: Topic, answer: HomeAnswer) -> None:
        self._asked[topic] = answer

        def heard(epoch: int, n: int) -> None:
            self._heard(topic, answer, (epoch, n))

        self._cluster.position_queries.position(topic, TRUNK, heard, lambda: self._is_known(topic))

    def _is_known(self, topic: Topic) -> bool:
        """Whether the topic still exists, as it does while a client waits. If not, drop the query."""
        if self._cluster.core.index.topics.get(topic.name) is topic:
            return True
        self._asked.pop(topic, None)
        self._next.pop(topic, None)
        return False

    def _heard(self, topic: Topic, answer: HomeAnswer, at: tuple[int, int]) -> None:
        self._asked.pop(topic, None)
        stream = topic.stream
        if stream is not None and not stream.state.is_home and stream.position < at:
            stream.again = max(stream.again, at)
        answer.is_there = True
        waiters, answer.waiters = answer.waiters, []
        for proceed in waiters:
            proceed()
        following = self._next.pop(topic, None)
        if following is not None:
            self._send(topic, following)
