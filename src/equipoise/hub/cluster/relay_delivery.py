"""Deliver what a relayed stream has next, at its position, and count what is missing before it.

`relay_merge` decides what is next. Here it goes to clients and to hubs behind this one; a position that does not follow
the last one is a loss, which subscribers are told of by its count, or by a gap.

Always true: positions are passed on as the home gave them, each once, in rising order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from equipoise.hub.cluster.link.codec import encode
from equipoise.hub.cluster.link.frames import OpenedFrame
from equipoise.hub.cluster.pattern_gaps import send_topic_gap
from equipoise.hub.cluster.ports import ClusterPort
from equipoise.hub.cluster.streams import Stream
from equipoise.stream.cursor import repeated
from equipoise.stream.parts import FilteredRun, Opened

if TYPE_CHECKING:
    from equipoise.hub.cluster.interests import Interests
    from equipoise.hub.cluster.peer_filters import PeerFilters
    from equipoise.hub.data.topics import Topic

__all__ = ["RelayDelivery"]


class _Cluster(ClusterPort, Protocol):
    @property
    def asked(self) -> PeerFilters: ...
    @property
    def interests(self) -> Interests: ...
    def announce(self, topic: Topic, epoch: int, after_epoch: int, after_n: int, at: int = 0) -> None: ...


class RelayDelivery:
    """Owned by RelayedStreams."""

    def __init__(self, cluster: _Cluster) -> None:
        self._cluster = cluster
        # Streams in which something waited when a hub was lost, until it has been taken.
        self.torn: set[Stream] = set()

    def deliver(self, stream: Stream, epoch: int, first: int, payloads: Sequence[bytes]) -> None:
        topic = stream.topic
        if topic.log is not None:
            topic.log.relay(epoch, first, payloads)
            return
        if epoch != topic.epoch or first != topic.n + 1:
            if topic.lane and stream.source is None and epoch != topic.epoch:
                # The answer to a question that was asked again: the lane begins here with the answer to the last one.
                return
            skip = repeated(topic.epoch, topic.n, epoch, first, len(payloads))
            if skip == len(payloads):
                return
            if skip:
                first, payloads = first + skip, payloads[skip:]
            self.skip(stream, epoch, first)
        self._cluster.core.publish(topic, payloads, first)

    def deliver_span(self, stream: Stream, run: FilteredRun) -> None:
        """Its messages, each at its position; then the stream is where the span ends."""
        topic, last = stream.topic, run.n + run.span - 1
        if (run.epoch, last) <= (topic.epoch, topic.n):
            return
        if run.epoch != topic.epoch or run.n > topic.n + 1:
            self.skip(stream, run.epoch, run.n)
        for first, payloads in run.runs(topic.n):
            topic.n = first - 1
            self._cluster.core.publish(topic, payloads, first)
        if topic.n < last:
            topic.n = last
            if topic.hub_filters is not None:
                self._cluster.asked.note_silence(topic)

    def skip(self, stream: Stream, epoch: int, first: int) -> None:
        """What comes next does not continue the stream: count what is missing."""
        topic = stream.topic
        self.count_loss(topic, epoch, first - 1)
        if epoch != topic.epoch and (topic.lane or stream in self.torn):
            send_topic_gap(self._cluster.core, topic)
        topic.jump(epoch, first - 1)

    def open(self, stream: Stream, opened: Opened) -> None:
        topic, (epoch, after_epoch, after_n, hub, _) = stream.topic, opened
        if epoch <= topic.epoch:
            return
        if topic.hub_filters is not None:
            topic.hub_filters.account(topic)
        frame = encode(OpenedFrame(topic.name, epoch, hub, after_epoch, after_n))
        for link in topic.relays or ():
            link.write(frame)
        if topic.log is None:
            self._cluster.announce(topic, epoch, after_epoch, after_n)
            self.count_loss(topic, after_epoch or epoch, after_n)
            if topic.epoch and hub and not after_epoch:
                # The home goes on behind a loss: subscribers by pattern may have got the dead hub's gap too early.
                send_topic_gap(self._cluster.core, topic)
        # The positions of a durable topic go on.
        topic.jump(epoch, 0 if topic.log is None else topic.n)

    def jump(self, stream: Stream, epoch: int, n: int) -> None:
        """Nothing before this position will come any more."""
        topic = stream.topic
        if topic.log is not None:
            topic.log.relay(epoch, n + 1, ())
        elif (epoch, n) > (topic.epoch, topic.n):
            if not topic.lane:
                # What depends on that position may come in a lane before the next message of the trunk does.
                self._cluster.announce(topic, epoch, 0, 0, n)
            self.count_loss(topic, epoch, n)
            topic.jump(epoch, n)

    def count_loss(self, topic: Topic, epoch: int, n: int) -> None:
        """What comes next follows that position: count what lies between it and where the topic stands here."""
        if not topic.epoch:
            # It has not begun here.
            return
        has_members, name = topic.trunk.has_subscribers, topic.trunk.name
        if epoch != topic.epoch:
            # Subscribers by pattern get a gap when a hub dies: the topic may only have been idle.
            if has_members:
                self._cluster.core.losses.count(name, None)
        elif n > topic.n and (has_members or self._cluster.core.audience_of(topic).receivers):
            # Of a stream that comes by filters it is not known how many of them a subscriber here wanted.
            count = None if self._cluster.interests.is_narrow(topic) else n - topic.n
            self._cluster.core.losses.count(name, count)
