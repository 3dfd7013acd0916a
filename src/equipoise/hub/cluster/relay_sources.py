"""Follow and leave the hubs that send a relayed stream, and end what a dead hub did not send.

Code that runs when the plan, the live hubs or the subscribers change; `relay_merge` runs once per message.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from equipoise.hub.cluster.link.frames import DetachFrame
from equipoise.hub.cluster.pattern_gaps import send_hub_gap, send_topic_gap
from equipoise.hub.cluster.ports import ClusterPort
from equipoise.hub.cluster.streams import State, Stream
from equipoise.hub.cluster.trees import FollowTarget, Trees
from equipoise.stream.parts import Ended
from equipoise.stream.relay import Arrival

if TYPE_CHECKING:
    from equipoise.hub.cluster.epoch_flush import EpochFlush
    from equipoise.hub.cluster.interests import Interests
    from equipoise.hub.data.topics import Topic

__all__ = ["RelaySources"]


class _Cluster(ClusterPort, Protocol):
    @property
    def flushes(self) -> EpochFlush: ...
    @property
    def interests(self) -> Interests: ...
    @property
    def trees(self) -> Trees: ...


class _Merge(Protocol):
    """The merge of the streams."""

    waiting: dict[Stream, None]
    torn_streams: set[Stream]

    def advance(self, stream: Stream) -> None: ...
    def arrive(self, stream: Stream, arrival: Arrival) -> None: ...
    def count_loss(self, topic: Topic, epoch: int, n: int) -> None: ...


class RelaySources:
    """Owned by RelayedStreams."""

    def __init__(self, cluster: _Cluster, merge: _Merge) -> None:
        self._cluster = cluster
        self._merge = merge

    def follow(self, stream: Stream) -> None:
        """Attach to the stream's home, or to the parent in its tree, if a subscriber here needs it."""
        if stream.state is not State.REMOTE or stream.peer is None or not stream.is_wanted:
            return
        target = (trees := self._cluster.trees).target(stream, stream.peer)
        left, must_attach = stream.follow(target.hub)
        self.leave(stream, left)
        (trees.ask if must_attach else trees.ask_again)(stream, target)

    def succeed(self, stream: Stream) -> None:
        """This hub is about to close the topic: messages from the next home continue those numbered here."""
        if stream.is_wanted and stream.peer is not None:
            self._cluster.trees.ask(stream, FollowTarget(stream.peer))
            stream.succeed(stream.peer)

    def unfollow(self, stream: Stream) -> None:
        """No subscriber is left, or the stream is numbered here."""
        # A reply that is still in flight belongs to a source that this hub has left.
        stream.ticket = 0
        for hub in stream.unfollow():
            self.leave(stream, hub)

    def leave_source(self, stream: Stream) -> None:
        """The source will not send the missing part of the stream: leave it."""
        self.leave(stream, stream.source)
        stream.source = None

    def peer_gone(self, stream: Stream, hub: str, *, is_gone: bool = True) -> None:
        """The hub is dead (`is_gone`), or its link has restarted: then the source is requested again."""
        stream.lost(hub, is_gone=is_gone)
        self._cluster.flushes.peer_gone(stream, hub)
        self._cluster.interests.left(stream, hub)
        self._merge.advance(stream)

    def hub_lost(self) -> None:
        """A hub is dead, or its frames are void: subscribers by pattern get a gap, since no position shows the loss.

        For a stream with pending parts they get another gap, between these parts and what follows.
        """
        send_hub_gap(self._cluster.core)
        self._merge.torn_streams.update(self._merge.waiting)

    def lane_died(self, stream: Stream, hub: str) -> None:
        """The hub of a lane is dead: queue the end of the lane, which is unknown, behind its pending parts."""
        epoch = max(arrival.epoch for arrival in stream.pending)
        self._merge.arrive(stream, Arrival(hub, epoch, Ended(0, 0)))

    def torn(self, stream: Stream) -> None:
        """All received parts of a lane whose hub is dead are delivered: no further part will arrive."""
        self._merge.count_loss(stream.topic, stream.topic.epoch + 1, 0)
        self._merge.torn_streams.discard(stream)
        send_topic_gap(self._cluster.core, stream.topic)

    def leave(self, stream: Stream, hub: str | None) -> None:
        if hub is not None:
            self._cluster.tell(hub, DetachFrame(stream.topic.key))
            self._cluster.flushes.left(stream, hub)
            self._cluster.interests.left(stream, hub)
