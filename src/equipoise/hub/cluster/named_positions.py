"""Positions that clients name before they publish (EQ.AFTER), in the stream that their messages are sent to.

A message follows everything in its own stream, so such a position need not be verified, and the client receives its
reply at once. But the hub may change to another stream before the message arrives. The change then waits until the hub
that numbers the old stream has confirmed the position, and the first message in the new stream carries it as a
dependency.

Always true: a position becomes a dependency only as far as the hub of the stream has confirmed it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from equipoise.hub.cluster.ports import ClusterPort
from equipoise.stream.position import TRUNK
from equipoise.stream.submission import NOWHERE

if TYPE_CHECKING:
    from equipoise.hub.cluster.streams import Stream
    from equipoise.hub.data.topics import Topic

__all__ = ["NamedPositions"]


class _Positions(Protocol):
    def position(
        self, trunk: Topic, stream: bytes, answer: Callable[[int, int], object], is_wanted: Callable[[], bool]
    ) -> None: ...


class _Dependencies(Protocol):
    def find(self, trunk: Topic, stream: bytes) -> Topic | None: ...


class _Routes(Protocol):
    def progressed(self, trunk: Topic) -> None: ...


class _Cluster(ClusterPort, Protocol):
    @property
    def position_queries(self) -> _Positions: ...
    @property
    def tags(self) -> _Dependencies: ...
    @property
    def ways(self) -> _Routes: ...


class NamedPositions:
    """Owned by the cluster."""

    def __init__(self, cluster: _Cluster) -> None:
        self._cluster = cluster
        # By stream, the ticket of the query to its hub.
        self._asked: dict[Stream, int] = {}

    def keep_to(self, trunk: Topic, stream: bytes, at: tuple[int, int]) -> bool:
        """Whether a client's next message is certain to follow this position of the stream without a dependency.

        It does if this hub publishes to that stream; the position is recorded in case the hub changes streams.
        """
        way = None if trunk.stream is None else trunk.stream.way
        if trunk.stream is None or way is None:
            is_kept_to = stream == TRUNK
        else:
            is_kept_to = way.is_settled and way.now == stream and not trunk.stream.admission.routing
        found = self._cluster.tags.find(trunk, stream) if is_kept_to else None
        if found is not None and found.stream is not None and not found.stream.state.is_home:
            self._note(found.stream, at)
        return is_kept_to

    def are_confirmed(self, topic: Topic) -> bool:
        """Whether publishers may leave the stream. If not, query its hub; the reply triggers a review of the route."""
        stream = topic.stream
        if stream is None or stream.state.is_home or stream.named <= _reached(stream):
            return True
        if stream not in self._asked:
            number = self._asked[stream] = self._cluster.new_ticket()
            self._cluster.position_queries.position(
                topic.trunk,
                topic.lane,
                lambda epoch, n: self._confirm(stream, number, (epoch, n)),
                lambda: self._is_wanted(stream, number),
            )
        return stream.named <= _reached(stream)

    def _note(self, stream: Stream, at: tuple[int, int]) -> None:
        if at > _reached(stream):
            stream.named = max(stream.named, at)
            # A reply in flight may be older than the position.
            self._asked.pop(stream, None)

    def _confirm(self, stream: Stream, number: int, given: tuple[int, int]) -> None:
        if self._asked.get(stream) == number:
            del self._asked[stream]
            stream.confirmed, stream.named = max(stream.confirmed, min(stream.named, given)), NOWHERE
            self._cluster.ways.progressed(stream.topic.trunk)

    def _is_wanted(self, stream: Stream, number: int) -> bool:
        """Whether publishers still wait for the reply; if not, drop the query, so that a later one is sent again."""
        trunk = stream.topic.trunk
        way = None if trunk.stream is None else trunk.stream.way
        is_left = way is not None and way.now == stream.topic.lane and not way.is_settled
        if not is_left and self._asked.get(stream) == number:
            del self._asked[stream]
        return is_left and self._asked.get(stream) == number


def _reached(stream: Stream) -> tuple[int, int]:
    """The latest position of messages of this hub's clients, or the latest confirmed position if that is later."""
    return max(stream.admission.numbered_at, stream.confirmed)
