"""One subscribed name on the wire, shared by all local subscriptions to it. Pure.

A channel is *live* while a hub has confirmed it on a present connection; only then it delivers messages. A listener
is *ready* once it has seen the channel live; only then it receives gaps.

A topic may be received over several links; stream/merge.py merges them into one stream. A pattern is subscribed at one
hub, which receives from all others. channels.py selects the links.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeAlias

from equipoise.client.events import Gap, GapReason
from equipoise.client.inbox import Batch
from equipoise.client.url import Endpoint
from equipoise.client.wire.codec import decode_name
from equipoise.errors import EquipoiseError
from equipoise.stream.cursor import PatternCursor
from equipoise.stream.merge import TopicMerge
from equipoise.stream.position import DURABLE_EPOCH
from equipoise.stream.sources import MergedStreams, Source


class Listener(Protocol):
    """A local subscription, as its channels see it."""

    def on_live(self, channel: Channel) -> None: ...

    def on_batch(self, batch: Batch) -> None: ...

    def on_gap(self, gap: Gap) -> None: ...

    def on_end(self, error: EquipoiseError | None) -> None: ...


class Channel:
    """Owned by the channels of one bus. `listeners` has whether each is ready."""

    __slots__ = ("_text", "is_live", "listeners", "name", "wire_name")

    is_pattern = False

    def __init__(self, name: bytes, wire_name: bytes = b"") -> None:
        self.name = name
        # By these the hubs confirm the subscription and send its messages.
        self.wire_name = wire_name or name
        self.is_live = False
        self.listeners: dict[Listener, bool] = {}
        self._text = decode_name(name)

    @property
    def key(self) -> tuple[bytes, bytes]:
        """Name and filter."""
        return self.name, b""

    def add(self, listener: Listener) -> None:
        self.listeners[listener] = self.is_live
        if self.is_live:
            listener.on_live(self)

    def on_down(self) -> None:
        self.is_live = False

    def _go_live(self, gap: Gap | None) -> None:
        self.is_live = True
        for listener, is_ready in list(self.listeners.items()):
            if is_ready and gap is not None:
                listener.on_gap(gap)
            self.listeners[listener] = True
            listener.on_live(self)

    def _pass_on(self, batch: Batch, gap: Gap | None) -> None:
        for listener in self.listeners:
            if gap is not None:
                listener.on_gap(gap)
            if batch.payloads:
                listener.on_batch(batch)


class TopicChannel(Channel):
    """A topic subscribed by name; or the part of it that a filter, `where`, matches."""

    __slots__ = ("edge", "merge", "migration", "where")

    def __init__(
        self,
        name: bytes,
        merge_bytes_max: int,
        where: bytes = b"",
        number: int = 0,
        streams: MergedStreams | None = None,
    ) -> None:
        """`number`: of a subscription with a filter, its id at hubs; unique within a bus.

        `streams`: the bookmark of an earlier subscription to the same.
        """
        super().__init__(name, b"%d" % number if where else name)
        self.where = where
        # The home to which a hub has sent the subscription; and the data of that for the request there.
        self.edge: Endpoint | None = None
        self.migration: tuple[bytes, ...] = ()
        self.merge = TopicMerge(self, merge_bytes_max, streams)

    @property
    def key(self) -> tuple[bytes, bytes]:
        return self.name, self.where

    @property
    def resume_at(self) -> int | None:
        """Of a durable topic, the number of the last message, from which a hub can continue. None: not possible."""
        epoch, n = self.merge.trunk.cursor.position
        return n if epoch == DURABLE_EPOCH else None

    def on_live(self, missed: int | None) -> None:
        """The stream is received from here on."""
        self._go_live(self._gap(missed, GapReason.RECONNECTED))

    def on_messages(self, epoch: int, n: int, payloads: Sequence[bytes], missed: int | None) -> None:
        """Messages in order, the first at n, after a loss of `missed` messages."""
        gap = None if missed == 0 else self._gap(missed, _reason(missed))
        self._pass_on(Batch(self._text, None, epoch, n, payloads), gap)

    def confirm_plain(self, source: Source) -> None:
        """A plain Redis has no positions."""
        self.merge.begin_plain(source)
        self._go_live(self._gap(None, GapReason.RECONNECTED))

    def receive_plain(self, payload: bytes) -> None:
        self._pass_on(Batch(self._text, None, 0, 0, [payload]), None)

    def _gap(self, missed: int | None, reason: GapReason) -> Gap | None:
        if missed == 0:
            return None
        if self.where:
            # The number of those that the filter matches is unknown.
            return Gap(self._text, None, reason, span=missed)
        return Gap(self._text, missed, reason)


class PatternChannel(Channel):
    """All topics that match a pattern. Losses while disconnected cannot be counted."""

    __slots__ = ("_cursor",)

    is_pattern = True

    def __init__(self, name: bytes, topics_max: int) -> None:
        super().__init__(name)
        self._cursor = PatternCursor(topics_max)

    def confirm(self) -> None:
        self._cursor.forget()
        self._go_live(Gap(None, None, GapReason.RECONNECTED, self._text))

    def receive(self, topic: bytes, stream: bytes, epoch: int, n: int, payloads: list[bytes]) -> None:
        skip, missed = self._cursor.accept((topic, stream), epoch, n, len(payloads))
        if skip:
            n, payloads = n + skip, payloads[skip:]
        text = decode_name(topic)
        gap = None if missed == 0 else Gap(text, missed, _reason(missed), self._text)
        self._pass_on(Batch(text, self._text, epoch, n, payloads), gap)

    def lose(self, topic: bytes | None) -> None:
        """A hub was lost with messages of the topic, or of any that matches. Positions of streams remain valid."""
        gap = Gap(None if topic is None else decode_name(topic), None, GapReason.HUB_LOST, self._text)
        for listener in self.listeners:
            listener.on_gap(gap)

    def receive_plain(self, topic: bytes, payload: bytes) -> None:
        self._pass_on(Batch(decode_name(topic), self._text, 0, 0, [payload]), None)


AnyChannel: TypeAlias = TopicChannel | PatternChannel


def _reason(missed: int | None) -> GapReason:
    return GapReason.NEW_EPOCH if missed is None else GapReason.HOLE
