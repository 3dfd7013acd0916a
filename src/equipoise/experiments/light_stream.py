"""What a light client hears of one topic, merged as the Equipoise client merges it, and counted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from equipoise.client.merging import TRUNK, MergedTopic
from equipoise.experiments.light_link import LightLink
from equipoise.experiments.meter import Meter

__all__ = ["Hearing"]

# What may wait from a hub that is changed to: never the limit here, since a world has no memory to protect.
MERGE_BYTES_MAX = 1 << 30


class _Seat:
    """The topic's subscription at one hub."""

    __slots__ = ("_topic", "is_live", "is_own", "link")

    def __init__(self, topic: bytes, link: LightLink) -> None:
        self._topic = topic
        self.link = link
        self.is_live = False
        self.is_own = False

    def leave(self) -> None:
        self.link.leave(self._topic)


class Hearing:
    """One topic, from one hub or from two while it changes. Owned by one client."""

    __slots__ = ("_merge", "_meter", "_receive", "is_live", "name")

    def __init__(self, topic: bytes, meter: Meter, receive: Callable[[bytes, bytes], None]) -> None:
        self.name = topic
        self._merge = MergedTopic(self, MERGE_BYTES_MAX)
        self._meter = meter
        self._receive = receive
        # Whether a hub has said that it stands, and we have not lost it since.
        self.is_live = False

    @property
    def links(self) -> list[LightLink]:
        """Where it is subscribed to, or being."""
        return [seat.link for seat in self._merge.seats if isinstance(seat, _Seat)]

    def go_to(self, link: LightLink) -> None:
        """Hear the topic from this hub."""
        seat = self._seat(link)
        if seat is None:
            seat = _Seat(self.name, link)
            link.subscribe(self.name)
        self._merge.want([seat])

    def lose(self, link: LightLink) -> None:
        """The hub is not to be heard any more."""
        seat = self._seat(link)
        if seat is not None:
            self._merge.lost(seat)

    def take(self, link: LightLink, kind: bytes, push: list[Any]) -> None:
        """Deal with what a hub sent about the topic."""
        seat = self._seat(link)
        if seat is None:
            return
        if kind == b"eq.message":
            self._merge.receive(seat, TRUNK, push[2], push[3], push[4:])
        elif kind == b"eq.lmessage":
            self._merge.receive(seat, push[2], push[3], push[4], push[5:])
        elif kind == b"eq.lane":
            self._merge.begin(seat, *push[2:5])
        elif kind == b"eq.ended":
            self._merge.ended(seat, *push[2:5])
        elif kind == b"eq.opened":
            self._merge.opened(seat, *push[2:5])
        elif kind == b"eq.subscribe":
            seat.is_live = True
            self._merge.begin(seat, TRUNK, push[3], push[4])
            self._merge.greeted(seat)

    def _seat(self, link: LightLink) -> _Seat | None:
        return next(
            (seat for seat in self._merge.seats if isinstance(seat, _Seat) and seat.link is link), None
        )

    # What the merged topic tells.

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
