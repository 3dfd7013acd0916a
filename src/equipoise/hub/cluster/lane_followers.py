"""Hubs that request to follow lanes of this hub: answer at once or when the lane is ready.

A hub may apply a plan before this hub does, and request a lane that this hub has not begun. A hub that has just started
does not know the latest epoch: its lanes begin once every live hub has introduced itself. Until then requests wait
here.

Always true: a waiting request belongs to a later plan than the one applied here, or no lane has begun here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from equipoise.hub.cluster.link.codec import encode
from equipoise.hub.cluster.link.frames import OverFrame
from equipoise.hub.cluster.ports import ClusterPort

if TYPE_CHECKING:
    from equipoise.hub.cluster.lane_state import Lane
    from equipoise.hub.cluster.link.link import OutLink
    from equipoise.hub.data.topics import Topic

__all__ = ["LaneFollowers"]


class _Positions(Protocol):
    def lane_ended(self, key: bytes, at: tuple[int, int]) -> None: ...


class _Cluster(ClusterPort, Protocol):
    @property
    def position_queries(self) -> _Positions: ...
    def take_in(self, topic: Topic, link: OutLink, ticket: int) -> None: ...


class LaneFollowers:
    """Owned by the hub's lanes."""

    def __init__(self, cluster: _Cluster) -> None:
        self._cluster = cluster
        # Whether every live hub has introduced itself once: from then on, new epochs here are later than all others.
        self.is_introduced = False
        # Requests for lanes of this hub that came too early: by key and link, the plan's version and the ticket.
        self._waiting: dict[bytes, dict[OutLink, tuple[int, int]]] = {}

    def receive_follow(self, link: OutLink, key: bytes, version: int, ticket: int) -> None:
        """FOLLOW: a hub requests a lane of this hub that the plan of this version names, or named."""
        lane = self._cluster.core.index.lanes.get(key)
        if version > self._cluster.router.version or not self.is_introduced:
            self._waiting.setdefault(key, {})[link] = (version, ticket)
        elif lane is not None and lane.hub == self._cluster.name:
            self._cluster.take_in(lane, link, ticket)
        else:
            link.send(OverFrame(key, 0, 0))

    def receive_detach(self, link: OutLink, key: bytes) -> None:
        """DETACH: the hub no longer follows the lane."""
        if key in self._waiting:
            self._waiting[key].pop(link, None)

    def tell_over(self, lane: Lane) -> None:
        """A lane of this hub ends: send OVER to its followers, and keep the last position for queries."""
        frame = encode(OverFrame(lane.key, lane.epoch, lane.n))
        for link in lane.relays or ():
            link.write(frame)
        self._cluster.position_queries.lane_ended(lane.key, (lane.epoch, lane.n))

    def link_gone(self, link: OutLink) -> None:
        for links in self._waiting.values():
            links.pop(link, None)

    def introduced(self) -> None:
        """All hubs have introduced themselves, and lanes have begun."""
        self.is_introduced = True
        self.answer_waiting()

    def answer_waiting(self) -> None:
        """The plan has changed, or lanes have begun: handle waiting requests again."""
        version = self._cluster.router.version
        for key, links in list(self._waiting.items()):
            for link in [link for link, (asked, _) in links.items() if asked <= version]:
                self.receive_follow(link, key, *links.pop(link))
            if not links:
                del self._waiting[key]
