"""Events of peers, delivered to each topic before its next change.

The death of a hub, or the restart of a link, affects all topics, and there may be a hundred thousand. The event need
not be applied to a topic at once, only before the topic's next change. So events are queued here: a topic that is about
to change applies its pending events first, and all others apply them in slices, when they are evaluated (`barrier`).
Events are applied to a topic and its lanes together.

Always true: an event that was applied to every topic is removed.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from equipoise.hub.data.topics import Topic

__all__ = ["PeerEvents", "Tell"]

# Applies an event to one topic or lane.
Tell = Callable[["Topic"], None]


class PeerEvents:
    """Part of one cluster."""

    def __init__(self) -> None:
        # Number of events so far; the pending ones are the last of them.
        self.latest = 0
        self._pending: list[Tell] = []

    def add(self, tell: Tell) -> None:
        self.latest += 1
        self._pending.append(tell)

    def tell(self, topic: Topic) -> None:
        """Apply pending events to a topic. Call this before reading or changing its stream, or a lane's stream."""
        trunk = topic.trunk
        if trunk.news == self.latest:
            return
        first = trunk.news - (self.latest - len(self._pending))
        # Before the calls below, which may call this method again.
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
