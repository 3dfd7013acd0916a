"""What a light client hears of one topic, merged as the Equipoise client merges it, and counted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from equipoise.client.merging import MergedStream
from equipoise.experiments.light_link import LightLink
from equipoise.experiments.meter import Meter

__all__ = ["Hearing"]

# What may wait from a hub that is changed to: never the limit here, since a world has no memory to protect.
MERGE_BYTES_MAX = 1 << 30


class Hearing:
    """One topic's stream, from one hub or from two while it changes. Owned by one client."""

    __slots__ = ("_meter", "_receive", "is_live", "name", "stream")

    def __init__(self, topic: bytes, meter: Meter, receive: Callable[[bytes, bytes], None]) -> None:
        self.name = topic
        self.stream = MergedStream(self, MERGE_BYTES_MAX)
        self._meter = meter
        self._receive = receive
        # Whether a hub has said that it stands, and we have not lost it since.
        self.is_live = False

    @property
    def links(self) -> list[LightLink]:
        """Where it is subscribed to, or being."""
        ends = (self.stream.source, self.stream.joining)
        return [end for end in ends if isinstance(end, LightLink)]

    def go_to(self, link: LightLink) -> None:
        """Hear the topic from this hub."""
        if link is self.stream.source:
            self.stream.stay()
        elif link is not self.stream.joining:
            link.subscribe(self.name)
            self.stream.join(link)

    def take(self, link: LightLink, kind: bytes, push: list[Any]) -> None:
        """Deal with what a hub sent about the topic."""
        if kind == b"eq.message":
            self.stream.receive(link, push[2], push[3], push[4:])
        elif kind == b"eq.opened":
            self.stream.opened(link, *push[2:5])
        elif kind == b"eq.subscribe":
            self.stream.confirmed(link, push[3], push[4], may_lag=True)
            if not self.is_live:
                # The first hub has not answered yet, and need not any more.
                self.stream.hurry()

    # What the stream tells.

    def on_down(self) -> None:
        self.is_live = False

    def on_live(self, missed: int | None) -> None:
        self.is_live = True
        self._count(missed)

    def on_messages(self, epoch: int, n: int, payloads: list[bytes], missed: int | None) -> None:
        if missed != 0:
            self._count(missed)
        self._meter.deliveries += len(payloads)
        for payload in payloads:
            self._receive(self.name, payload)

    def _count(self, missed: int | None) -> None:
        if missed is None:
            self._meter.unknown_gaps += 1
        else:
            self._meter.missed += missed
