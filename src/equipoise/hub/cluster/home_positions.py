"""Query the positions of content topics at their heads, for new subscribers at other hubs of the tree.

A home lets a hub follow at its present position; a hub of a tree lets another follow where it has got to itself. So an
edge may be far behind another one. A subscriber that comes from there would get again what it had, and one that comes
after a message was acknowledged would get that message. So an edge answers a subscriber only once it is as far as the
home was after the subscriber had come. The home of a durable topic may have yet to send what its log has.

Always true: an answer is to a question that was sent after all that wait for it had come.
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
    """The answer to one question, and who waits for it."""

    def __init__(self) -> None:
        self.is_there = False
        self.waiters: list[Callable[[], None]] = []


class _Questions(Protocol):
    def position(
        self,
        trunk: Topic,
        stream: bytes,
        answer: Callable[[int, int], object],
        is_wanted: Callable[[], bool],
    ) -> None: ...


class _Cluster(ClusterPort, Protocol):
    @property
    def asking(self) -> _Questions: ...


class HomePositions:
    """Part of one cluster. One question per topic is under way, and one waits for it to be answered."""

    def __init__(self, cluster: _Cluster) -> None:
        self._cluster = cluster
        self._asked: dict[Topic, HomeAnswer] = {}
        self._next: dict[Topic, HomeAnswer] = {}

    def ask(self, topic: Topic) -> HomeAnswer:
        """Find out how far the home is. The stream stands here only beyond that position from the answer on."""
        if topic in self._asked:
            return self._next.setdefault(topic, HomeAnswer())
        answer = HomeAnswer()
        self._send(topic, answer)
        return answer

    def _send(self, topic: Topic, answer: HomeAnswer) -> None:
        self._asked[topic] = answer

        def heard(epoch: int, n: int) -> None:
            self._heard(topic, answer, (epoch, n))

        self._cluster.asking.position(topic, TRUNK, heard, lambda: self._is_known(topic))

    def _is_known(self, topic: Topic) -> bool:
        """Whether the topic is still there, as it is while a client waits. If not, the question is dropped."""
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
