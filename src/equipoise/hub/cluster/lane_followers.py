"""Hubs that request to follow lanes of this hub: answer at once or when the lane is ready.

A hub may know a plan before this hub does, and asks for a lane that this hub has not begun. A hub that has just started
does not know how far epochs have come: its lanes begin once every live hub has introduced itself. Until then questions
wait here.

Always true: a question that waits is about a plan that is later than the one here, or no lane has begun here.
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
    def asking(self) -> _Positions: ...
    def take_in(self, topic: Topic, link: OutLink, ticket: int) -> None: ...


class LaneFollowers:
    """Owned by the hub's lanes."""

    def __init__(self, cluster: _Cluster) -> None:
        self._cluster = cluster
        # Whether every live hub has introduced itself once: from then on epochs here are later than all before.
        self.is_introduced = False
        # Hubs that want to follow a lane of ours too early: by key, the plan's version and the number of the question.
        self._waiting: dict[bytes, dict[OutLink, tuple[int, int]]] = {}

    def receive_follow(self, link: OutLink, key: bytes, version: int, ticket: int) -> None:
        """A hub wants to follow a lane of ours that the plan of this version names, or named."""
        lane = self._cluster.core.index.lanes.get(key)
        if version > self._cluster.router.version or not self.is_introduced:
            self._waiting.setdefault(key, {})[link] = (version, ticket)
        elif lane is not None and lane.hub == self._cluster.name:
            self._cluster.take_in(lane, link, ticket)
        else:
            link.send(OverFrame(key, 0, 0))

    def receive_detach(self, link: OutLink, key: bytes) -> None:
        """The hub does not want to follow the lane any more."""
        if key in self._waiting:
            self._waiting[key].pop(link, None)

    def tell_over(self, lane: Lane) -> None:
        """A lane of this hub ends: tell the hubs that follow it, and keep the last position for those that ask."""
        frame = encode(OverFrame(lane.key, lane.epoch, lane.n))
        for link in lane.relays or ():
            link.write(frame)
        self._cluster.asking.lane_ended(lane.key, (lane.epoch, lane.n))

    def link_gone(self, link: OutLink) -> None:
        for links in self._waiting.values():
            links.pop(link, None)

    def introduced(self) -> None:
        """All hubs have introduced themselves, and lanes have begun."""
        self.is_introduced = True
        self.answer_waiting()

    def answer_waiting(self) -> None:
        """The plan has changed, or lanes have begun: hubs that asked before may be answered."""
        version = self._cluster.router.version
        for key, links in list(self._waiting.items()):
            for link in [link for link, (asked, _) in links.items() if asked <= version]:
                self.receive_follow(link, key, *links.pop(link))
            if not links:
                del self._waiting[key]
