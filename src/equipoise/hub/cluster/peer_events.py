"""Events of peers, delivered to each topic before its next change.

A hub that dies, or a link that begins anew, concerns all topics, and there may be a hundred thousand. None of them has
to hear of it at once: only before it is touched next. So news are noted here, a topic that is touched learns first
what it has missed, and the others learn it in slices, when they are asked about anew (`barrier`). A topic and its lanes
learn it together.

Always true: nothing is kept that every topic has learned.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from equipoise.hub.data.topics import Topic

__all__ = ["PeerEvents", "Tell"]

# Does to one topic, or lane, what follows.
Tell = Callable[["Topic"], None]


class PeerEvents:
    """Part of one cluster."""

    def __init__(self) -> None:
        # Counts the news there were; the last of them are those that some topic has yet to learn.
        self.latest = 0
        self._pending: list[Tell] = []

    def add(self, tell: Tell) -> None:
        self.latest += 1
        self._pending.append(tell)

    def tell(self, topic: Topic) -> None:
        """Call this before a topic's stream, or one of its lanes', is looked at or changed."""
        trunk = topic.trunk
        if trunk.news == self.latest:
            return
        first = trunk.news - (self.latest - len(self._pending))
        # First: what follows may come back here.
        trunk.news = self.latest
        for tell in list(islice(self._pending, max(0, first), None)):
            tell(trunk)
            for lane in () if trunk.beside is None else list(trunk.beside.lanes.values()):
                tell(lane)

    @property
    def has_pending(self) -> bool:
        return bool(self._pending)

    def all_learned(self) -> None:
        self._pending.clear()
