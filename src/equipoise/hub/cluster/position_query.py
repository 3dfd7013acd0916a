"""Query the last position of a stream at its home.

A client may declare that its next message follows a position in another stream. Every subscriber would wait for that
position, so it must be an assigned one: a client's position counts only as far as the hub of that stream confirms it.

A lane that has ended at one hub may still be in flight to another, and messages there have to wait for it. So the hub
of the lane continues to reply for a while, with the last position of the lane.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple, Protocol

from equipoise.hub.cluster.lane_state import lane_key
from equipoise.hub.cluster.link.frames import AskFrame, AtFrame
from equipoise.hub.cluster.ports import ClusterPort
from equipoise.stream.position import TRUNK
from equipoise.stream.submission import NOWHERE

if TYPE_CHECKING:
    from equipoise.hub.cluster.link.link import OutLink
    from equipoise.hub.data.topics import Topic

__all__ = ["PositionQueries"]

# Delay in seconds before a query is repeated, if its hub no longer numbers the stream or is dead: the plan names the
# next.
AGAIN_S = 0.05
# Seconds after which a hub that was declared dead has learned it, unless it is cut off from clients and hubs alike.
STALE_S = 5.0
# How long the end of a lane is kept, in seconds: longer than a hub that lacks its last messages can stay undetected
# (6 s by default).
ENDS_KEPT_S = 15.0


class Query(NamedTuple):
    """One query, and the callback for its reply."""

    trunk: Topic
    stream: bytes
    # Called with epoch and n; epoch 0 if there is no such stream, or its hub is dead.
    answer: Callable[[int, int], object]
    # Whether the reply still matters; if not, the query is not repeated.
    is_wanted: Callable[[], bool]


class _Streams(Protocol):
    def find(self, trunk: Topic, stream: bytes) -> Topic | None: ...


class _Lanes(Protocol):
    @property
    def known(self) -> Mapping[bytes, Mapping[str, object]]: ...


class _Cluster(ClusterPort, Protocol):
    @property
    def lanes(self) -> _Lanes: ...
    @property
    def tags(self) -> _Streams: ...


class PositionQueries:
    """The queries of this hub's clients. Owned by the cluster."""

    def __init__(self, cluster: _Cluster) -> None:
        self._cluster = cluster
        # By hub and key, the queries without a reply. Each is sent, because the reply to an earlier one may be older
        # than the client's position; replies arrive in order.
        self._pending: dict[tuple[str, bytes], deque[Query]] = {}
        # Ended lanes of this hub, by key: the last position, and the time until which it is kept. The oldest first.
        self._ends: dict[bytes, tuple[tuple[int, int], float]] = {}
        # Lanes that have ended here, by topic and hub: the time until which their hubs keep the ends.
        self._over: dict[bytes, dict[str, float]] = {}

    def position(
        self, trunk: Topic, stream: bytes, answer: Callable[[int, int], object], is_wanted: Callable[[], bool]
    ) -> None:
        """Query the last position of a stream of a topic; replies at once if this hub numbers it."""
        self._query(Query(trunk, stream, answer, is_wanted))

    def await_epoch(
        self, trunk: Topic, epoch: int, answer: Callable[[int, int], object], is_wanted: Callable[[], bool]
    ) -> None:
        """A client names a later epoch of a topic than the one that this hub numbers: reply when it has arrived here.

        If another hub has opened the topic, this hub was declared dead and has not learned it yet: then the reply never
        comes. A client that names a wrong epoch receives a reply after STALE_S.
        """
        deadline, core = self._cluster.core.now() + STALE_S, self._cluster.core

        def check() -> None:
            if trunk.epoch >= epoch or not trunk.is_home or core.now() >= deadline:
                answer(0, 0)
            elif is_wanted():
                core.shell.call_later(AGAIN_S, check)

        check()

    def _query(self, query: Query) -> None:
        if not query.is_wanted():
            return
        found = self._cluster.tags.find(query.trunk, query.stream)
        if found is None:
            self._query_end(query)
        elif found.stream is None or found.stream.state.is_home:
            query.answer(found.epoch, found.n)
        elif found.stream.peer is None or found.stream.peer not in self._cluster.out:
            self._repeat(query)
        else:
            self._send(found.stream.peer, found.key, query)

    def _query_end(self, query: Query) -> None:
        """The lane has ended here: query its hub for the last position, if the hub is alive."""
        hub = query.stream.decode("utf-8", "replace")
        key = lane_key(hub, query.trunk.name)
        if hub in self._cluster.out:
            self._send(hub, key, query)
        else:
            query.answer(*self._end(key))

    def _send(self, peer: str, key: bytes, query: Query) -> None:
        self._pending.setdefault((peer, key), deque()).append(query)
        self._cluster.tell(peer, AskFrame(key))

    def streams_of(self, trunk: Topic) -> list[bytes]:
        """The streams of a topic in which a numbered message may still be in flight to a hub."""
        lanes = {*self._cluster.lanes.known.get(trunk.name, ()), *self._over.get(trunk.name, ())}
        return [TRUNK, *(hub.encode() for hub in sorted(lanes))]

    def lane_over(self, topic: bytes, hub: str) -> None:
        """The hub has ended its lane of the topic. Other hubs may not have received that yet."""
        self._over.setdefault(topic, {})[hub] = self._cluster.core.now() + ENDS_KEPT_S

    def lane_ended(self, key: bytes, at: tuple[int, int]) -> None:
        """A lane of this hub has ended; `at` is its last position."""
        self._ends.pop(key, None)
        self._ends[key] = at, self._cluster.core.now() + ENDS_KEPT_S

    def tidy(self) -> None:
        """Remove the ends whose time has passed."""
        now = self._cluster.core.now()
        while self._ends and (first := next(iter(self._ends.items())))[1][1] <= now:
            del self._ends[first[0]]
        for topic, hubs in list(self._over.items()):
            left = {hub: until for hub, until in hubs.items() if until > now}
            if left:
                self._over[topic] = left
            else:
                del self._over[topic]

    def _end(self, key: bytes) -> tuple[int, int]:
        return self._ends[key][0] if key in self._ends else NOWHERE

    def receive_query(self, peer: str, key: bytes, topic: Topic | None) -> None:
        """ASK: a hub queries the position of a stream. It repeats the query if this hub does not number the stream."""
        # A home that still has to send messages of its log has a position beyond the one it shows.
        is_here = topic is not None and topic.is_home and (topic.log is None or topic.log.may_subscribe)
        if topic is not None and topic.hub_filters is not None:
            topic.hub_filters.account(topic)
        at = (topic.epoch, topic.n) if topic is not None else self._end(key)
        self._cluster.tell(peer, AtFrame(key, *at, is_here or (topic is None and at != NOWHERE)))

    def receive_reply(self, peer: str, key: bytes, at: tuple[int, int], *, is_there: bool) -> None:
        waiting = self._pending.get((peer, key))
        if not waiting:
            return
        query = waiting.popleft()
        if not waiting:
            del self._pending[peer, key]
        if is_there:
            query.answer(*at)
        elif self._cluster.tags.find(query.trunk, query.stream) is None:
            query.answer(0, 0)
        else:
            self._repeat(query)

    def peer_gone(self, peer: str) -> None:
        """The hub is dead: repeat its queries elsewhere."""
        for key in [key for key in self._pending if key[0] == peer]:
            for query in self._pending.pop(key):
                self._repeat(query)

    def introduce(self, link: OutLink) -> None:
        """The link has restarted: send its queries again."""
        for (hub, key), waiting in self._pending.items():
            if hub == link.hub:
                for _ in waiting:
                    link.send(AskFrame(key))

    def _repeat(self, query: Query) -> None:
        self._cluster.core.shell.call_later(AGAIN_S, self._query, query)
