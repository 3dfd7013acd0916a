"""Measurements of one topic in the current window, beside the topic's counters.

Most topics have one publisher and nothing else to record, and these cost nothing: only a change of publisher is
recorded, and messages before the first change are those of the previous publisher. `window` builds the records of many
topics at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Protocol

from equipoise.telemetry import Role

if TYPE_CHECKING:
    from equipoise.hub.data.topic import Topic

__all__ = [
    "COUNTED",
    "NOTED",
    "PUBLISHED",
    "PUBLISHERS_MAX",
    "TopicMeter",
    "counters",
    "gather_lanes",
    "let_rest",
    "meter_of",
    "role_of",
]

# Most publishers distinguished in one window: above any number that a decision depends on, and at most 64 KiB.
PUBLISHERS_MAX = 1_000
# An audience with at most so many receivers is dropped while its topic is idle: it takes 600 bytes, and is compiled
# again in some microseconds.
_FORGOTTEN_RECEIVERS = 8


class Queue(Protocol):
    """A backlog: held output of a slow client."""

    @property
    def is_held(self) -> bool:
        """Whether pieces are queued."""


class TopicMeter:
    """Exists while its topic is active. Owned by TelemetryRecorder; code that counts here sets `is_noted`."""

    __slots__ = (
        "backlog_bytes_max",
        "counted",
        "cuts",
        "drops",
        "egress_bytes",
        "egress_messages",
        "filter_matches",
        "ingress_bytes",
        "ingress_messages",
        "is_noted",
        "kept_off_messages",
        "matching_ns",
        "queued",
        "row",
        "seen",
        "waited_s_max",
    )

    def __init__(self, topic: Topic) -> None:
        # The topic's counters at the start of the window. Once the topic is in a slice: the counters of messages of all
        # the slice's topics, by row.
        counted = counters(topic)
        self.counted: Sequence[int] = counted if any(counted) else _ZEROS
        self.row = PUBLISHED
        self.forget_notes()

    def forget_notes(self) -> None:
        """Reset the meter for the next window."""
        # Whether any value below differs from its initial one, or a client has subscribed or unsubscribed.
        self.is_noted = False
        # The publishers of the window; None: only the topic's last publisher.
        self.seen: set[int] | None = None
        # Messages and bytes sent to the home (ingress), and to following hubs (egress, once per hub).
        self.ingress_messages = self.ingress_bytes = 0
        self.egress_messages = self.egress_bytes = 0
        self.cuts = self.drops = 0
        # Messages to subscribers by filter, time of matching, and messages that filters kept off links.
        self.filter_matches = self.matching_ns = self.kept_off_messages = 0
        # Backlogs that messages of this topic were queued in, each with the time of the first; and the largest size of
        # these backlogs.
        self.queued: dict[Queue, float] | None = None
        self.backlog_bytes_max = 0
        # The longest wait of a message in a backlog until it was written.
        self.waited_s_max = 0.0

    @property
    def published_before(self) -> int:
        """The topic's counter of messages at the start of the window."""
        return self.counted[self.row]

    def note_publisher(self, topic: Topic, session_id: int | None) -> None:
        """The publisher is about to change; None: to another hub, which counts its clients itself."""
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

    def note_matching(self, matches: int, matching_s: float, kept_off: int = 0) -> None:
        self.is_noted = True
        self.filter_matches += matches
        self.matching_ns += int(matching_s * 1e9)
        self.kept_off_messages += kept_off

    def note_queued(self, backlog: Queue, size_bytes: int, now: float) -> None:
        """A message was queued in a backlog, whose size is now `size_bytes`."""
        self.is_noted = True
        if self.queued is None:
            self.queued = {}
        self.queued.setdefault(backlog, now)
        if size_bytes > self.backlog_bytes_max:
            self.backlog_bytes_max = size_bytes

    def note_waited(self, waited_s: float) -> None:
        """A queued message was written after `waited_s`."""
        if waited_s > self.waited_s_max:
            self.is_noted = True
            self.waited_s_max = waited_s

    def queue_s(self, now: float) -> float:
        """The longest wait of a message in this window, including waits that continue."""
        waiting = [now - since for backlog, since in (self.queued or {}).items() if backlog.is_held]
        return max(self.waited_s_max, *waiting) if waiting else self.waited_s_max

    def note_loss(self, *, cuts: int, drops: int) -> None:
        self.is_noted = True
        self.cuts += cuts
        self.drops += drops


# By column of the schema, the topic's counter whose growth it is.
COUNTED = {
    "publications": "published",
    "deliveries": "delivered",
    "bytes_in": "bytes_in",
    "bytes_out": "bytes_out",
}
# Index of `published` in a row of counters.
PUBLISHED = 0
# Columns that are counted on the meter, because few topics need them.
NOTED = (
    "ingress_messages",
    "ingress_bytes",
    "egress_messages",
    "egress_bytes",
    "cuts",
    "drops",
    "filter_matches",
    "matching_ns",
    "kept_off_messages",
)

# Shared counters of topics without activity, which are many if clients only subscribe.
_ZEROS = (0,) * len(COUNTED)

counters: Callable[[Topic], tuple[int, ...]] = attrgetter(*COUNTED.values())
meter_of: Callable[[Topic], TopicMeter] = attrgetter("meter")


def gather_lanes(topic: Topic) -> None:
    """Add the counters of a topic's lanes to the topic, and reset them."""
    for lane in () if topic.beside is None else topic.beside.lanes.values():
        for counter in COUNTED.values():
            setattr(topic, counter, getattr(topic, counter) + getattr(lane, counter))
            setattr(lane, counter, 0)


def let_rest(topic: Topic) -> None:
    """The topic was idle in the window: remove its meter until its next activity."""
    topic.meter = topic.publisher = None
    for stream in (topic, *(() if topic.beside is None else topic.beside.lanes.values())):
        audience = stream.audience
        if audience is not None and audience.receivers <= _FORGOTTEN_RECEIVERS:
            stream.audience = None
        elif audience is not None:
            audience.rest()


def role_of(topic: Topic) -> Role:
    """The hub's role for the topic."""
    if topic.is_home:
        return Role.HOME
    lanes = () if topic.beside is None else topic.beside.lanes.values()
    has_own = any(lane.is_home for lane in lanes)
    return Role.LANE if has_own else Role.RELAY
