"""What is known of one topic's present window, and how a window becomes a row of numbers."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from equipoise.hub.backlog import Backlog
    from equipoise.hub.topics import Topic

__all__ = ["COUNTED", "PUBLISHERS_MAX", "TopicMeter", "counters"]

# By schema column, the counter on the topic that it is the growth of.
COUNTED = {
    "publications": "published",
    "deliveries": "delivered",
    "bytes_in": "bytes_in",
    "bytes_out": "bytes_out",
    "ingress_messages": "ingress_messages",
    "ingress_bytes": "ingress_bytes",
    "egress_messages": "egress_messages",
    "egress_bytes": "egress_bytes",
    "cuts": "cuts",
    "drops": "drops",
}

counters: Callable[[Topic], tuple[int, ...]] = attrgetter(*COUNTED.values())

# Publishers told apart in one window: beyond any decision that is taken by their number, and 64 KiB at most.
PUBLISHERS_MAX = 1_000


class TopicMeter:
    """Lives while its topic has something to record. Owned by Metering; backlogs write to it as well."""

    __slots__ = ("backlog", "backlog_bytes_max", "counted", "is_changed", "others", "publisher")

    def __init__(self, topic: Topic) -> None:
        # The topic's counters when the window began.
        self.counted = counters(topic)
        # The first who published in the window, and whoever did besides; most topics have one.
        self.publisher: int | None = None
        self.others: set[int] | None = None
        # Whether somebody subscribed or unsubscribed.
        self.is_changed = False
        # The largest that a message of this topic was added to, and how large it was then.
        self.backlog: Backlog | None = None
        self.backlog_bytes_max = 0

    def note_publisher(self, session_id: int) -> None:
        if self.publisher is None:
            self.publisher = session_id
        elif session_id != self.publisher:
            if self.others is None:
                self.others = set()
            if len(self.others) < PUBLISHERS_MAX:
                self.others.add(session_id)

    @property
    def publishers(self) -> int:
        return 0 if self.publisher is None else 1 if self.others is None else 1 + len(self.others)

    def begin_window(self, counted: tuple[int, ...]) -> None:
        self.counted = counted
        self.publisher = self.others = None
        self.is_changed = False
        self.backlog = None
        self.backlog_bytes_max = 0
