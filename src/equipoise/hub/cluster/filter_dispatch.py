"""Execute frames about filters between hubs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from equipoise.errors import ProtocolError
from equipoise.hub.cluster.link.frames import (
    ControlFrame,
    FilteredFrame,
    Frame,
    NarrowFrame,
    SpanFrame,
    UnwantFrame,
    WantedFrame,
    WantFrame,
    WidenFrame,
)
from equipoise.stream.parts import FilteredRun

if TYPE_CHECKING:
    from equipoise.hub.cluster.cluster import Cluster
    from equipoise.hub.cluster.link.link import OutLink
    from equipoise.hub.data.topics import Topic

__all__ = ["filter_handlers"]

Handlers = dict[type[Frame], Callable[[str, Any], None]]


def filter_handlers(cluster: Cluster, find: Callable[[bytes], Topic | None]) -> Handlers:
    """Handlers by type of frame. `find` returns a topic to which all peer events are applied."""

    def asking(do: Callable[[Topic, OutLink, Any], None]) -> Callable[[str, Any], None]:
        def handle(peer: str, frame: Any) -> None:
            topic, link = find(frame.topic), cluster.out.get(peer)
            if topic is not None and link is not None:
                do(topic, link, frame)
            elif isinstance(frame, WantFrame | WidenFrame):
                # This hub does not have the topic: confirm at once that there is nothing to send.
                cluster.tell(peer, WantedFrame(frame.topic, frame.ticket, 0, 0))

        return handle

    def wanted(peer: str, frame: WantedFrame) -> None:
        topic = find(frame.topic)
        cluster.interests.wanted(None if topic is None else topic.stream, peer, frame)

    def filtered(peer: str, frame: FilteredFrame) -> None:
        if len(frame.offsets) != len(frame.payloads) or frame.offsets[-1] >= frame.count:
            raise ProtocolError("EQ.L.FILTERED with messages outside its span")
        take(peer, frame, frame.offsets, frame.payloads)

    def take(peer: str, frame: FilteredFrame | SpanFrame, *messages: Any) -> None:
        cluster.core.note_epoch(frame.epoch)
        topic = find(frame.topic)
        stream = None if topic is None else topic.stream
        if stream is not None and not stream.state.is_home and stream.has_attached(peer):
            cluster.merging.filtered(
                stream, peer, FilteredRun(frame.epoch, frame.first, frame.count, *messages)
            )

    return {
        FilteredFrame: filtered,
        SpanFrame: lambda peer, frame: take(peer, frame, (), ()),
        WantFrame: asking(cluster.asked.want),
        UnwantFrame: asking(cluster.asked.unwant),
        NarrowFrame: asking(cluster.asked.narrow),
        WidenFrame: asking(cluster.asked.widen),
        WantedFrame: wanted,
        ControlFrame: lambda peer, frame: cluster.edge.control.publish(frame),
    }
