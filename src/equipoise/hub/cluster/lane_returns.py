"""What waits for tokens in a lane that ends goes back to the hubs that sent it, and from there to where the plan says.

A lane ends when all that waits in it has its position. Tokens may take minutes, and no share of the topic grows while
the lane has its own: so messages that wait for tokens are returned. The hub whose clients published them sends them
along the way that it changes to, ahead of all that waits there, and behind what the lane has numbered.

Messages that came through a third hub are not returned: they have their turn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from equipoise.hub.cluster.link.capability import RETURN
from equipoise.hub.cluster.link.codec import runs
from equipoise.hub.cluster.link.frames import ReturnFrame
from equipoise.hub.cluster.ports import ClusterPort
from equipoise.stream.submission import Path, Submission

if TYPE_CHECKING:
    from equipoise.hub.cluster.lane_state import Lane
    from equipoise.hub.cluster.link.link import OutLink
    from equipoise.hub.data.topics import Topic
    from equipoise.stream.admission import Admission

__all__ = ["LaneReturns"]


class _Ingress(Protocol):
    lost: int


class _Routes(Protocol):
    def progressed(self, trunk: Topic) -> None: ...


class _Cluster(ClusterPort, Protocol):
    @property
    def ingress(self) -> _Ingress: ...
    @property
    def ways(self) -> _Routes: ...


class LaneReturns:
    """Owned by Lanes."""

    def __init__(self, cluster: _Cluster) -> None:
        self._cluster = cluster
        # Messages that were returned, by this hub and to it.
        self.sent = 0
        self.taken = 0

    def give_back(self, lane: Lane) -> bool:
        """Return what waits for tokens in a lane of this hub; whether nothing of other hubs waits any more.

        What this hub's own clients wait with goes elsewhere when the lane is removed.
        """
        limit, stream = lane.limit, lane.stream
        if stream is None:
            return True
        waiting = stream.admission.waiting
        if limit is not None:
            for path in [path for path in limit.ring if path in waiting]:
                self._give_back(lane, path, stream.admission)
        return not any(path or limit is None for path in waiting)

    def _give_back(self, lane: Lane, path: Path, admission: Admission) -> None:
        link = self._link(path)
        if link is None or any(item.lost for item in admission.waiting[path]):
            return
        for item in reversed(admission.drop_waiting(path)):
            parts = list(runs(item.payloads, self._cluster.core.limits.payload_bytes_max))
            for start, part in reversed(parts):
                link.send(ReturnFrame(lane.key, () if start else tuple(item.after), part))
            self.sent += item.messages

    def _link(self, path: Path) -> OutLink | None:
        """To the hub whose clients published what came by the path, if it takes messages back."""
        link = self._cluster.out.get(path[0][0]) if len(path) == 1 else None
        is_same = link is not None and link.incarnation == path[0][1]
        return link if link is not None and is_same and link.can(RETURN) else None

    def take_back(self, peer: str, frame: ReturnFrame, lane: Topic | None) -> None:
        """A hub returns the last messages that it has got of this hub's clients."""
        stream = None if lane is None else lane.stream
        trunk = None if lane is None else lane.trunk.stream
        if lane is None or stream is None or trunk is None:
            self._cluster.ingress.lost += len(frame.payloads)
            return
        self.taken += len(frame.payloads)
        _forget_last(stream.admission, peer, len(frame.payloads))
        routing = trunk.admission
        later = [routing.take_routing() for _ in range(len(routing.routing))]
        for item in (Submission((), 0, frame.payloads, frame.tags), *later):
            routing.put_routing(item)
        self._cluster.ways.progressed(lane.trunk)


def _forget_last(admission: Admission, hub: str, count: int) -> None:
    """So many of the last messages of this hub's clients that went to the hub are not under way any more."""
    entry = admission.unresolved.get((hub, ()))
    if entry is not None:
        admission._set_unresolved(hub, (), entry._replace(messages=max(0, entry.messages - count)))
        return
    for way in [way for way in admission.in_flight if way[0] == hub]:
        left: list[tuple[Path, int]] = []
        for path, sent in reversed(admission.in_flight[way]):
            part = min(sent, count) if not path else 0
            count -= part
            if part < sent:
                left.append((path, sent - part))
        admission.in_flight[way].clear()
        admission.in_flight[way].extend(reversed(left))
        if not left:
            del admission.in_flight[way]
