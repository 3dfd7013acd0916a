"""What is known of one topic's present window beside its counters.

Publishers are told apart by their connections. Most topics have one, and it costs nothing: only a change of
publisher is noted, and what came before the first change came from the last publisher there was.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from equipoise.hub.rows import INGRESS, PUBLISHED, counters

if TYPE_CHECKING:
    from equipoise.hub.backlog import Backlog
    from equipoise.hub.topics import Topic

__all__ = ["PUBLISHERS_MAX", "TopicMeter"]

# Publishers told apart in one window: beyond any decision that is taken by their number, and 64 KiB at most.
PUBLISHERS_MAX = 1_000


class TopicMeter:
    """Lives while its topic has something to record. Owned by Metering; backlogs write to it as well."""

    __slots__ = ("backlog", "backlog_bytes_max", "counted", "is_changed", "is_noted", "seen")

    def __init__(self, topic: Topic) -> None:
        # The topic's counters when the window began.
        self.counted = counters(topic)
        # Whether there is anything beside counters.
        self.is_noted = False
        # Whoever published in the window, where it was not only the topic's last publisher.
        self.seen: set[int] | None = None
        # Whether somebody subscribed or unsubscribed.
        self.is_changed = False
        # The largest that a message of this topic was added to, and how large it was then.
        self.backlog: Backlog | None = None
        self.backlog_bytes_max = 0

    def note_publisher(self, topic: Topic, session_id: int | None) -> None:
        """Another client than the last is about to publish; None for other hubs, whose clients are counted there."""
        self.is_noted = True
        if self.seen is None:
            # Whatever has come in this window came from the last one.
            self.seen = set() if topic.publisher is None or not self.has_come(topic) else {topic.publisher}
        if session_id is not None and len(self.seen) < PUBLISHERS_MAX:
            self.seen.add(session_id)

    def has_come(self, topic: Topic) -> bool:
        """Whether anything was published in this window."""
        return (topic.published, topic.ingress_messages) != (self.counted[PUBLISHED], self.counted[INGRESS])

    def forget_notes(self) -> None:
        """The window is over."""
        self.is_noted = self.is_changed = False
        self.seen = None
        self.backlog = None
        self.backlog_bytes_max = 0
