"""Announce the lanes of this hub's topics to subscribers: where each begins, and where it ends.

A smart subscriber that receives a lane from the lane's own hub (EQ.OWN) leaves it out here (`TopicLanes.absent`). It
receives neither the lane's beginning nor its end from this hub, unless the lane's hub dies and cannot send the end.

Always true: a subscriber receives the end of a lane only if it has received the beginning, or has left the lane out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from equipoise.hub.cluster.lane_state import ended_push, lane_push
from equipoise.hub.cluster.ports import ClusterPort

if TYPE_CHECKING:
    from equipoise.hub.cluster.lane_state import Lane
    from equipoise.hub.data.topics import Topic

__all__ = ["LaneAnnouncements"]


class _Subscriptions(Protocol):
    def push(self, topic: Topic, frame: bytes) -> None: ...


class _Cluster(ClusterPort, Protocol):
    @property
    def subscriptions(self) -> _Subscriptions: ...
    def announce_loss(self, trunk: Topic) -> None: ...


class LaneAnnouncements:
    """Owned by Lanes."""

    def __init__(self, cluster: _Cluster) -> None:
        self._cluster = cluster

    def begun(self, lane: Lane) -> None:
        """The lane is established here: announce it once per epoch, and again for subscribers that had left it out."""
        if lane.told_epoch != lane.epoch or lane.due:
            lane.told_epoch = lane.epoch
            lane.due.clear()
            self._cluster.announce_loss(lane.trunk)
            self._cluster.subscriptions.push(lane, lane_push(lane))

    def begins_anew(self, lane: Lane) -> None:
        """The plan names a lane again that a previous plan had ended: announce it to subscribers that left it out.

        They may not receive the new lane from its own hub. The other subscribers have its former announcement, and
        receive its end if it does not begin again.
        """
        if lane.beside is not None and lane.beside.absent:
            lane.due.update(lane.beside.absent)
            lane.beside.absent.clear()
            lane.audience = None
            if lane.hub == self._cluster.name:
                self.begun(lane)

    def ended(self, lane: Lane, epoch: int, n: int) -> None:
        """The lane has ended at this position; epoch 0: its hub is dead, or it never began."""
        self._cluster.subscriptions.push(lane, ended_push(lane, epoch, n))

    def removed(self, lane: Lane, epoch: int, n: int) -> None:
        """Announce the end, as `ended`, if the lane's beginning was announced here."""
        if lane.told_epoch:
            self.ended(lane, epoch, n)

    def hub_died(self, lane: Lane) -> None:
        """Send the end of the lane to subscribers that received it from its own hub, which is dead."""
        absent = set() if lane.beside is None else lane.beside.absent
        left_out = [session for session in lane.members if session in absent or session in lane.due]
        absent.clear()
        lane.due.clear()
        if not lane.told_epoch:
            # Its beginning was not announced here: the other subscribers do not need its end.
            for session in left_out:
                session.write(ended_push(lane, 0, 0))
