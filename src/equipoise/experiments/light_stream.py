"""What a light client hears of one topic: one stream, from one hub or from two while it changes.

A change of hubs goes as the protocol lays down: subscribe at the new one, go on with the old one until it has reached
the position at which the new one took us in, and leave it then. What the new one sends meanwhile is held.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from equipoise.client.cursor import TopicCursor
from equipoise.experiments.meter import Meter

__all__ = ["Hearing"]


class Hearing:
    """One topic's stream. Owned by one client."""

    __slots__ = (
        "_cursor",
        "_held",
        "_join_at",
        "_joining",
        "_meter",
        "_receive",
        "_source",
        "_topic",
        "is_live",
    )

    def __init__(self, topic: bytes, meter: Meter, receive: Callable[[bytes, bytes], None]) -> None:
        self._topic = topic
        self._meter = meter
        self._receive = receive
        self._cursor = TopicCursor()
        self._source: str | None = None
        self._joining: str | None = None
        self._join_at: tuple[int, int] | None = None
        self._held: list[tuple[bytes, list[Any]]] = []
        # Whether a hub has said that it stands, and we have not lost it since.
        self.is_live = False

    @property
    def hubs(self) -> list[str]:
        """Where it is subscribed to, or being."""
        return [hub for hub in (self._source, self._joining) if hub is not None]

    def go_to(self, hubs: Sequence[str]) -> list[str]:
        """Hear the topic from this hub; where to subscribe for that."""
        (hub,) = hubs
        if hub == self._source:
            self._forget_joining()
            return []
        if hub == self._joining:
            return []
        self._forget_joining()
        if self._source is None:
            self._source = hub
        else:
            self._joining = hub
        return [hub]

    def take(self, hub: str, kind: bytes, push: list[Any]) -> str | None:
        """Deal with what a hub sent; a hub to leave, if it has served."""
        if hub == self._source:
            self._apply(kind, push)
            if self._join_at is None:
                return None
        elif hub == self._joining:
            if kind != b"eq.subscribe":
                self._held.append((kind, push))
            elif self.is_live:
                self._join_at = (push[3], push[4])
            else:
                # The first hub has not answered yet, and need not any more.
                former, self._source = self._source, hub
                self._forget_joining()
                self._apply(kind, push)
                return former
        return self._change()

    def lost(self, hub: str, target: str) -> None:
        """The connection to a hub is gone, and `target` is asked instead."""
        if hub == self._joining:
            self._forget_joining()
        if hub == self._source:
            self._source, self.is_live = target, False
            if self._joining == target:
                self._forget_joining()
        elif self._source is None:
            self._source = target

    def _change(self) -> str | None:
        """Leave the old hub once it has brought us to where the new one took us in."""
        if self._join_at is None or (self._cursor.epoch, self._cursor.next_n - 1) < self._join_at:
            return None
        former, self._source = self._source, self._joining
        held = self._held
        self._joining, self._join_at, self._held = None, None, []
        for kind, push in held:
            self._apply(kind, push)
        return former

    def _apply(self, kind: bytes, push: list[Any]) -> None:
        if kind == b"eq.message":
            payloads = push[4:]
            skip, missed = self._cursor.accept(push[2], push[3], len(payloads))
            if skip:
                payloads = payloads[skip:]
            self._meter.deliveries += len(payloads)
            for payload in payloads:
                self._receive(self._topic, payload)
        elif kind == b"eq.opened":
            missed = self._cursor.open(*push[2:5])
        elif kind == b"eq.subscribe":
            missed = self._cursor.resume(push[3], push[4])
            self.is_live = True
        else:
            missed = 0
        if missed is None:
            self._meter.unknown_gaps += 1
        elif missed:
            self._meter.missed += missed

    def _forget_joining(self) -> None:
        self._joining, self._join_at, self._held = None, None, []
