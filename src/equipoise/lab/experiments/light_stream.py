"""What a light client hears of one topic: merged as the Equipoise client merges it, and counted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from equipoise.lab.experiments.light_link import LightLink, LightSubscription
from equipoise.lab.experiments.meter import Meter
from equipoise.stream.merge import TopicMerge
from equipoise.stream.position import TRUNK

__all__ = ["Hearing"]

# What may wait from a hub that is changed to: never the limit here, since a world has no memory to protect.
MERGE_BYTES_MAX = 1 << 30


class Hearing:
    """One topic, over one link or over several. Owned by one client."""

    __slots__ = ("_meter", "_receive", "is_live", "merge", "topic")

    def __init__(self, topic: bytes, meter: Meter, receive: Callable[[bytes, bytes], None]) -> None:
        self.topic = topic
        self.merge = TopicMerge(self, MERGE_BYTES_MAX)
        self._meter = meter
        self._receive = receive
        # Whether a hub has said that the trunk stands, and we have not lost it since.
        self.is_live = False

    @property
    def links(self) -> list[LightLink]:
        """Where it is subscribed to, or being."""
        return [
            subscription.link
            for subscription in self.merge.sources
            if isinstance(subscription, LightSubscription)
        ]

    def leave(self) -> None:
        for subscription in list(self.merge.sources):
            subscription.leave()

    def take_message(self, link: LightLink, push: list[Any]) -> None:
        """Messages of the trunk. Apart from the rest: this runs once for each."""
        every, own = link.subscriptions
        subscription = every.get(self.topic)
        if subscription is not None and subscription.is_live:
            self.merge.receive(subscription, TRUNK, push[2], push[3], push[4:])
        subscription = own.get(self.topic) if own else None
        if subscription is not None and subscription.is_live and TRUNK not in subscription.left_out:
            self.merge.receive(subscription, TRUNK, push[2], push[3], push[4:])

    def take(self, link: LightLink, push: list[Any]) -> None:
        """Deal with whatever else a hub sent about the topic."""
        kind = push[0]
        stream = TRUNK if kind in (b"eq.opened", b"eq.trunk") else push[2]
        every, own = (subscriptions.get(self.topic) for subscriptions in link.subscriptions)
        if own is not None and (kind == b"eq.ended" or (kind == b"eq.lane" and every is None)):
            # Of what it leaves out the hub says no more than that its hub is dead, or that another begins.
            own.left_out.discard(stream)
        for subscription in (every, own):
            if subscription is not None and subscription.is_live and stream not in subscription.left_out:
                self._take_news(subscription, kind, push)

    def _take_news(self, subscription: LightSubscription, kind: bytes, push: list[Any]) -> None:
        """Messages of lanes, and that streams begin, go on, end or follow each other."""
        merge = self.merge
        if kind == b"eq.lmessage":
            merge.receive(subscription, push[2], push[3], push[4], push[5:])
        elif kind == b"eq.opened":
            merge.opened(subscription, *push[2:5])
        elif kind == b"eq.lane":
            merge.begin(subscription, *push[2:5])
        elif kind == b"eq.trunk":
            merge.begin(subscription, TRUNK, *push[2:4])
        elif kind == b"eq.ended":
            merge.ended(subscription, *push[2:5])
        elif kind == b"eq.after":
            merge.depends(subscription, *push[2:6])

    def confirm(self, subscription: LightSubscription, push: list[Any]) -> None:
        """The subscription stands."""
        if not subscription.is_own:
            self.merge.begin(subscription, TRUNK, push[3], push[4])
            return
        subscription.left_out = set(push[6:])
        if push[3] is not None:
            self.merge.begin(subscription, push[3], push[4], push[5])

    # What the merging tells.

    def on_down(self) -> None:
        self.is_live = False

    def on_live(self, missed: int | None) -> None:
        self.is_live = True
        self._count(missed)

    def on_messages(self, epoch: int, n: int, payloads: Sequence[bytes], missed: int | None) -> None:
        if missed != 0:
            self._count(missed)
        self._meter.deliveries += len(payloads)
        for payload in payloads:
            self._receive(self.topic, payload)

    def _count(self, missed: int | None) -> None:
        if missed is None:
            self._meter.unknown_gaps += 1
        else:
            self._meter.missed += missed
