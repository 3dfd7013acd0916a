"""Return messages that wait for tokens in a closing stream to their senders, which forward them again.

A lane ends when all its waiting messages are numbered. Tokens may take minutes, and no other share of the topic grows
while the lane holds its share; so messages that wait for tokens are returned. The hub whose clients published them
sends them to its next stream, ahead of all messages that wait there, and behind the messages that the lane has
numbered.

A hub that changes to another stream requests its messages itself (RECALL), from a trunk or a lane that continues. It
sends that stream nothing more until all sent messages are numbered or returned. A hub that has forwarded some of the
messages, because the topic has moved, forwards the request, and the returned messages (RECALLED).

Messages that reached an ending lane through a third hub are not returned: they wait for their tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from equipoise.hub.cluster.link.capability import RETURN
from equipoise.hub.cluster.link.codec import runs
from equipoise.hub.cluster.link.frames import Frame, RecalledFrame, RecallFrame, ReturnFrame
from equipoise.hub.cluster.ports import ClusterPort
from equipoise.stream.submission import Path, Submission

if TYPE_CHECKING:
    from equipoise.hub.cluster.lane_state import Lane
    from equipoise.hub.cluster.link.link import OutLink
    from equipoise.hub.cluster.streams import PublishRoute, Stream
    from equipoise.hub.data.topics import Topic
    from equipoise.stream.admission import Admission
    from equipoise.stream.parts import Dependency

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
        # Number of messages returned by this hub, and to this hub.
        self.sent = 0
        self.taken = 0

    def handlers(
        self, find: Callable[[bytes], Topic | None]
    ) -> dict[type[Frame], Callable[[str, Any], None]]:
        """Handlers by type of frame. `find` returns a topic or a lane by its key."""
        return {
            ReturnFrame: lambda peer, frame: self.take_back(peer, frame, find(frame.key)),
            RecallFrame: lambda peer, frame: self.recalled(peer, frame, find(frame.key)),
            RecalledFrame: lambda peer, frame: self.take_recalled(peer, frame, find(frame.key)),
        }

    def give_back(self, lane: Lane) -> bool:
        """Return the messages that wait for tokens in a lane of this hub; whether no other hub's messages are left.

        Messages of this hub's own clients are rerouted when the lane is removed.
        """
        limit, stream = lane.limit, lane.stream
        if stream is None:
            return True
        waiting = stream.admission.waiting
        if limit is not None:
            for path in [path for path in limit.ring if path in waiting]:
                self._give_back(lane, path, stream.admission)
        return not any(path or limit is None for path in waiting)

    def recall(self, trunk: Stream, way: PublishRoute, topic: Topic | None) -> None:
        """This hub's clients leave a stream: request its waiting messages, once, to send them first in the next one."""
        stream = None if topic is None or topic.limit is None else topic.stream
        if topic is None or stream is None or way.now == way.target or way.is_recalled:
            return
        admission = stream.admission
        # Not with messages that may be resent after a failure of the home: they would be duplicated.
        if not admission.kept and not any(_is_special(item) for item in admission.waiting.get((), ())):
            way.is_recalled = self._ask(topic.key, (), admission)
        if way.is_recalled:
            # Messages not sent there yet must follow the returned ones.
            trunk.admission.put_routing_first(*admission.drop_waiting(()))

    def _ask(self, key: bytes, path: Path, admission: Admission) -> bool:
        """Send RECALL to the hubs that messages of a path were sent to; return whether there is one."""
        sent = admission.in_flight.items()
        hubs = {hub for (hub, _), parts in sent if any(came_by == path for came_by, _ in parts)}
        links = [link for link in map(self._cluster.out.get, sorted(hubs)) if link is not None]
        return sum(link.send(RecallFrame(key, path)) for link in links) > 0

    def recalled(self, peer: str, frame: RecallFrame, topic: Topic | None) -> None:
        """RECALL: return the messages of a path that wait here, and recall those that were sent to other hubs."""
        link = self._cluster.out.get(peer)
        stream = None if topic is None or topic.log is not None else topic.stream
        if link is None or stream is None:
            return
        path, admission = (*frame.path, (peer, link.incarnation)), stream.admission
        if any(_is_special(item) for item in admission.waiting.get(path, ())):
            return
        for item in reversed(admission.drop_waiting(path)):
            for after, part in self._parts(item):
                link.send(RecalledFrame(frame.key, frame.path, after, part))
            self.sent += item.messages
        self._ask(frame.key, path, admission)

    def take_recalled(self, peer: str, frame: RecalledFrame, topic: Topic | None) -> None:
        """RECALLED: a hub returns the last messages of a path that it has not returned yet."""
        if not frame.path:
            self.take_back(peer, frame, topic)
            return
        if topic is not None and topic.stream is not None:
            _forget_last(topic.stream.admission, peer, frame.path, len(frame.payloads))
        link = self._cluster.out.get(frame.path[-1][0])
        if link is None or link.incarnation != frame.path[-1][1]:
            self._cluster.ingress.lost += len(frame.payloads)
        else:
            link.send(RecalledFrame(frame.key, frame.path[:-1], frame.tags, frame.payloads))

    def _parts(self, item: Submission) -> Iterator[tuple[tuple[Dependency, ...], Sequence[bytes]]]:
        """The messages in parts that fit a frame, each with its dependencies; the last part first."""
        parts = list(runs(item.payloads, self._cluster.core.limits.payload_bytes_max))
        for start, part in reversed(parts):
            yield () if start else tuple(item.after), part

    def _give_back(self, topic: Topic, path: Path, admission: Admission) -> None:
        link = self._link(path)
        if link is None or any(_is_special(item) for item in admission.waiting[path]):
            return
        for item in reversed(admission.drop_waiting(path)):
            for after, part in self._parts(item):
                link.send(ReturnFrame(topic.key, after, part))
            self.sent += item.messages

    def _link(self, path: Path) -> OutLink | None:
        """The link to the hub whose clients published the messages of the path, if it has the capability RETURN."""
        link = self._cluster.out.get(path[0][0]) if len(path) == 1 else None
        is_same = link is not None and link.incarnation == path[0][1]
        return link if link is not None and is_same and link.can(RETURN) else None

    def take_back(self, peer: str, frame: ReturnFrame | RecalledFrame, topic: Topic | None) -> None:
        """A hub returns the last messages that it has received of this hub's clients."""
        stream = None if topic is None else topic.stream
        trunk = None if topic is None else topic.trunk.stream
        if topic is None or stream is None or trunk is None:
            self._cluster.ingress.lost += len(frame.payloads)
            return
        self.taken += len(frame.payloads)
        _forget_last(stream.admission, peer, (), len(frame.payloads))
        trunk.admission.put_routing_first(Submission((), 0, frame.payloads, frame.tags))
        self._cluster.ways.progressed(topic.trunk)


def _is_special(item: Submission) -> bool:
    """Whether it is a loss, or may be resent: it keeps its place."""
    return item.lost > 0 or item.sequence > 0


def _forget_last(admission: Admission, hub: str, came_by: Path, count: int) -> None:
    """The last `count` messages of a path that were sent to the hub are no longer in flight."""
    entry = admission.unresolved.get((hub, came_by))
    if entry is not None:
        admission._set_unresolved(hub, came_by, entry._replace(messages=max(0, entry.messages - count)))
        return
    for way in [way for way in admission.in_flight if way[0] == hub]:
        left: list[tuple[Path, int]] = []
        for path, sent in reversed(admission.in_flight[way]):
            part = min(sent, count) if path == came_by else 0
            count -= part
            if part < sent:
                left.append((path, sent - part))
        admission.in_flight[way].clear()
        admission.in_flight[way].extend(reversed(left))
        if not left:
            del admission.in_flight[way]
