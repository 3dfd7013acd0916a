"""What is known of one topic's present window beside its counters.

Most topics have one publisher and nothing else to tell, and that costs nothing: only a change of publisher is noted,
and what came before the first change came from the last publisher there was.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from equipoise.hub.telemetry.rows import PUBLISHED, counters

if TYPE_CHECKING:
    from equipoise.hub.data.backlog import Backlog
    from equipoise.hub.data.topics import Topic

__all__ = ["PUBLISHERS_MAX", "TopicMeter"]

# Publishers told apart in one window: beyond any decision that is taken by their number, and 64 KiB at most.
PUBLISHERS_MAX = 1_000


class TopicMeter:
    """Lives while its topic has something to record. Owned by Metering; whoever counts here sets `is_noted`."""

    __slots__ = (
        "backlog",
        "backlog_bytes_max",
        "counted",
        "cuts",
        "drops",
        "egress_bytes",
        "egress_messages",
        "ingress_bytes",
        "ingress_messages",
        "is_noted",
        "row",
        "seen",
    )

    def __init__(self, topic: Topic) -> None:
        # The topic's counters when the window began. Once the topic is in a slice, the messages of all of the
        # slice's topics, of which it is one.
        self.counted: Sequence[int] = counters(topic)
        self.row = PUBLISHED
        self.forget_notes()

    def forget_notes(self) -> None:
        """The window is over."""
        # Whether anything below is other than here, or somebody has come or gone.
        self.is_noted = False
        # Whoever published in the window, where it was not only the topic's last publisher.
        self.seen: set[int] | None = None
        # Messages and bytes passed on to where they get their positions; and to hubs that follow, once for each.
        self.ingress_messages = self.ingress_bytes = 0
        self.egress_messages = self.egress_bytes = 0
        self.cuts = self.drops = 0
        # The largest that a message of this topic was added to, and how large it was then.
        self.backlog: Backlog | None = None
        self.backlog_bytes_max = 0

    @property
    def published_before(self) -> int:
        """The topic's messages when the window began."""
        return self.counted[self.row]

    def note_publisher(self, topic: Topic, session_id: int | None) -> None:
        """Another client than the last is about to publish; None for other hubs, whose clients are counted there."""
        if self.seen is None:
            self.is_noted = True
            has_come = topic.published != self.published_before or self.ingress_messages > 0
            self.seen = {topic.publisher} if has_come and topic.publisher is not None else set()
        if session_id is not None and len(self.seen) < PUBLISHERS_MAX:
            self.seen.add(session_id)

    def note_ingress(self, messages: int, size_bytes: int) -> None:
        self.is_noted = True
        self.ingress_messages += messages
        self.ingress_bytes += size_bytes

    def note_egress(self, messages: int, size_bytes: int) -> None:
        self.is_noted = True
        self.egress_messages += messages
        self.egress_bytes += size_bytes

    def note_loss(self, *, cuts: int, drops: int) -> None:
        self.is_noted = True
        self.cuts += cuts
        self.drops += drops
