"""Deliver the next part of a relayed stream at its position, and count the messages missing before it.

`relay_merge` decides which part is next. This module sends it to clients and to the hubs that follow this one. A
position that does not follow the last one is a loss, which is reported to subscribers by its count, or by a gap.

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
        # Streams with parts that were pending when a hub was lost, until these have been delivered.
        self.torn: set[Stream] = set()

    def deliver(self, stream: Stream, epoch: int, first: int, payloads: Sequence[bytes]) -> None:
        topic = stream.topic
        if topic.log is not None:
            topic.log.relay(epoch, first, payloads)
            return
        if epoch != topic.epoch or first != topic.n + 1:
            if topic.lane and stream.source is None and epoch != topic.epoch:
                # The reply to a request that was repeated: the lane begins here with the reply to the last request.
                return
            skip = repeated(topic.epoch, topic.n, epoch, first, len(payloads))
            if skip == len(payloads):
                return
            if skip:
                first, payloads = first + skip, payloads[skip:]
            self.skip(stream, epoch, first)
        self._cluster.core.publish(topic, payloads, first)

    def deliver_span(self, stream: Stream, run: FilteredRun) -> None:
        """Deliver the messages of a span, each at its position; then the stream is at the end of the span."""
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
        """The next message does not continue the stream: count the missing ones."""
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
                # The home continues after a loss: subscribers by pattern may have received the dead hub's gap too
                # early.
                send_topic_gap(self._cluster.core, topic)
        # The positions of a durable topic go on.
        topic.jump(epoch, 0 if topic.log is None else topic.n)

    def jump(self, stream: Stream, epoch: int, n: int) -> None:
        """No message before this position will arrive any more."""
        topic = stream.topic
        if topic.log is not None:
            topic.log.relay(epoch, n + 1, ())
        elif (epoch, n) > (topic.epoch, topic.n):
            if not topic.lane:
                # A message that depends on that position may arrive in a lane before the next message of the trunk.
                self._cluster.announce(topic, epoch, 0, 0, n)
            self.count_loss(topic, epoch, n)
            topic.jump(epoch, n)

    def count_loss(self, topic: Topic, epoch: int, n: int) -> None:
        """Count the positions between the position of the topic here and the one that the next message follows."""
        if not topic.epoch:
            # The topic has no position here yet.
            return
        has_members, name = topic.trunk.has_subscribers, topic.trunk.name
        if epoch != topic.epoch:
            # Subscribers by pattern get a gap when a hub dies: the topic may only have been idle.
            if has_members:
                self._cluster.core.losses.count(name, None)
        elif n > topic.n and (has_members or self._cluster.core.audience_of(topic).receivers):
            # If the stream is filtered, it is unknown how many of the missing messages a subscriber here requested.
            count = None if self._cluster.interests.is_narrow(topic) else n - topic.n
            self._cluster.core.losses.count(name, count)
