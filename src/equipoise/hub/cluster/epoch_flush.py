"""Flush a stream: find out when another hub has sent all of it (FLUSH, ENDED).

There are three reasons for a FLUSH:
    - an epoch waits for the end of the previous one at the hub that has closed it (stream/relay.py);
    - a parent in a tree was left before it had confirmed: its messages are stray until it replies;
    - a hub is to open a topic behind an epoch whose end it has not received, and it follows a parent in the topic's
      tree, not the hub that closed the epoch. A hub above the parent may have crashed with the last messages; the hubs
      below it then wait for the next home, which is this hub.

In the third case a hub replies when it has no source any more, or when its own source has replied. So the request is
passed up the tree to where the stream is cut, or to the hub that closed the epoch. Links are ordered: the reply arrives
behind all messages of the epoch.

Always true: every request ends, since a tree has no cycle and the loss of a source counts as a reply.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from equipoise.hub.cluster.link.frames import EndedFrame, FlushFrame, Frame
from equipoise.hub.cluster.ports import ClusterPort
from equipoise.hub.cluster.streams import State

if TYPE_CHECKING:
    from equipoise.hub.cluster.streams import Stream
    from equipoise.hub.data.topics import Topic

__all__ = ["LEFT", "EpochFlush"]

# In place of an epoch: the hub has stopped following the stream.
LEFT = 0


class _Handover(Protocol):
    def review(self, stream: Stream) -> None: ...


class _Relays(Protocol):
    def leave_source(self, stream: Stream) -> None: ...
    def wake(self, stream: Stream) -> None: ...


class _Cluster(ClusterPort, Protocol):
    @property
    def handover(self) -> _Handover: ...
    @property
    def merging(self) -> _Relays: ...


class EpochFlush:
    """Part of one cluster."""

    def __init__(self, cluster: _Cluster) -> None:
        self._cluster = cluster

    def handlers(
        self, find: Callable[[bytes], Topic | None]
    ) -> dict[type[Frame], Callable[[str, Any], None]]:
        """Handlers by type of frame. `find` returns a topic to which all peer events are applied."""

        def asked(peer: str, frame: FlushFrame) -> None:
            topic, link = find(frame.topic), self._cluster.out.get(peer)
            stream = None if topic is None else topic.stream
            if link is not None and stream is not None and frame.epoch != LEFT:
                stream.flushing[link] = frame.epoch
                self.look(stream)
            else:
                self._answer(topic, frame.topic, peer, frame.epoch)

        def answered(peer: str, frame: EndedFrame) -> None:
            topic = find(frame.topic)
            stream = None if topic is None else topic.stream
            if stream is None:
                return
            if frame.epoch == LEFT:
                stream.confirmed_left(peer)
            elif stream.flushed(peer, frame.epoch):
                self._cluster.merging.wake(stream)
            if stream.flush_asked == (peer, frame.epoch):
                stream.flush_ended = stream.flush_asked
                self._cluster.handover.review(stream)

        return {FlushFrame: asked, EndedFrame: answered}

    def left(self, stream: Stream, hub: str) -> None:
        """This hub no longer follows the hub: request a flush, as messages that it sent before may be stray."""
        if hub in stream.strays and hub in self._cluster.out:
            stream.strays[hub] += 1
            self._cluster.tell(hub, FlushFrame(stream.topic.name, LEFT))

    def peer_gone(self, stream: Stream, hub: str) -> None:
        """The link to or from the hub has restarted, or the hub is dead: outstanding replies never arrive."""
        stream.flushing = {link: epoch for link, epoch in stream.flushing.items() if link.hub != hub}
        if stream.flush_asked[0] == hub:
            stream.flush_asked = stream.flush_ended = ("", 0)
        if stream.strays.pop(hub, None) is not None and hub in self._cluster.out:
            stream.strays[hub] = 0
            self.left(stream, hub)

    def look(self, stream: Stream) -> None:
        """Send the replies that are possible now, and leave a source that cannot send the end of an epoch."""
        for link, epoch in list(stream.flushing.items()):
            if self._is_over(stream, epoch):
                del stream.flushing[link]
                self._answer(stream.topic, stream.topic.name, link.hub, epoch)
        if stream.ending is None or stream.state is not State.OPENING:
            return
        closer, epoch, n = stream.ending
        is_behind = epoch > 0 and stream.position < (epoch, n)
        if is_behind and stream.source not in (None, closer) and self._is_over(stream, epoch):
            self._cluster.merging.leave_source(stream)

    def _is_over(self, stream: Stream, epoch: int) -> bool:
        """Whether no more of the epoch can arrive here. If a source may send more, request a flush from it."""
        if stream.state.is_home or stream.position[0] > epoch or stream.closed_epoch >= epoch:
            return True
        source = stream.source
        if source is not None and stream.flush_ended != (source, epoch):
            if stream.flush_asked != (source, epoch):
                stream.flush_asked = source, epoch
                self._cluster.tell(source, FlushFrame(stream.topic.name, epoch))
            return False
        return not stream.pending

    def _answer(self, topic: Topic | None, name: bytes, peer: str, epoch: int) -> None:
        """Send the reply, behind all messages for the peer."""
        if topic is not None and topic.hub_filters is not None:
            topic.hub_filters.account(topic)
        self._cluster.tell(peer, EndedFrame(name, epoch))
