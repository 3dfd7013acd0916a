"""What is known of one topic's present window beside its counters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from equipoise.hub.rows import counters

if TYPE_CHECKING:
    from equipoise.hub.backlog import Backlog
    from equipoise.hub.topics import Topic

__all__ = ["PUBLISHERS_MAX", "TopicMeter"]

# Publishers told apart in one window: beyond any decision that is taken by their number, and 64 KiB at most.
PUBLISHERS_MAX = 1_000
_SYSTEM = b"$"


class TopicMeter:
    """Lives while its topic has something to record. Owned by Metering; backlogs write to it as well."""

    __slots__ = ("backlog", "backlog_bytes_max", "counted", "is_changed", "is_hidden", "seen")

    def __init__(self, topic: Topic) -> None:
        # The topic's counters when the window began.
        self.counted = counters(topic)
        # Whether it has no record of its own, and only counts for the hub's.
        self.is_hidden = topic.is_shard or topic.name.startswith(_SYSTEM)
        # Who published in the window: nobody, one, or several; most topics have one.
        self.seen: int | set[int] | None = None
        # Whether somebody subscribed or unsubscribed.
        self.is_changed = False
        # The largest that a message of this topic was added to, and how large it was then.
        self.backlog: Backlog | None = None
        self.backlog_bytes_max = 0

    def note_publisher(self, session_id: int) -> None:
        seen = self.seen
        if seen is None:
            self.seen = session_id
        elif isinstance(seen, int):
            self.seen = {seen, session_id}
        elif len(seen) < PUBLISHERS_MAX:
            seen.add(session_id)
