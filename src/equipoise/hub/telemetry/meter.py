"""Measurements of one topic in the current window, beside the topic's counters.

Most topics have one publisher and nothing else to note, and that costs nothing: only a change of publisher is noted,
and what came before the first change came from the last publisher there was. `window` makes the records, of many topics
at once.
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

# Publishers distinguished in one window: beyond any decision that is taken by their number, and 64 KiB at most.
PUBLISHERS_MAX = 1_000
# An audience of so few is compiled anew in some microseconds, and weighs 600 bytes while its topic rests.
_FORGOTTEN_RECEIVERS = 8


class Queue(Protocol):
    """A backlog: output that waits for a client that has fallen behind."""

    @property
    def is_held(self) -> bool:
        """Whether anything still waits in it."""


class TopicMeter:
    """Lives while its topic has something to record. Owned by Metering; code that counts here sets `is_noted`."""

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
        # The topic's counters when the window began. Once the topic is in a slice, the messages of all of the
        # slice's topics, of which it is one.
        counted = counters(topic)
        self.counted: Sequence[int] = counted if any(counted) else _ZEROS
        self.row = PUBLISHED
        self.forget_notes()

    def forget_notes(self) -> None:
        """The window is over."""
        # Whether anything below is other than here, or a client has come or gone.
        self.is_noted = False
        # The publishers of the window, where it was not only the topic's last publisher.
        self.seen: set[int] | None = None
        # Messages and bytes passed on to where they get their positions; and to hubs that follow, once for each.
        self.ingress_messages = self.ingress_bytes = 0
        self.egress_messages = self.egress_bytes = 0
        self.cuts = self.drops = 0
        # Messages to subscribers by filter, time of matching, and messages that other hubs did not have to be sent.
        self.filter_matches = self.matching_ns = self.kept_off_messages = 0
        # The backlogs that messages of this topic were added to, each with when the first was; and the size of the
        # largest of them then.
        self.queued: dict[Queue, float] | None = None
        self.backlog_bytes_max = 0
        # The longest time that a message waited in a backlog until it was written.
        self.waited_s_max = 0.0

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

    def note_matching(self, matches: int, matching_s: float, kept_off: int = 0) -> None:
        self.is_noted = True
        self.filter_matches += matches
        self.matching_ns += int(matching_s * 1e9)
        self.kept_off_messages += kept_off

    def note_queued(self, backlog: Queue, size_bytes: int, now: float) -> None:
        """A message waits in a backlog, which has become so large."""
        self.is_noted = True
        if self.queued is None:
            self.queued = {}
        self.queued.setdefault(backlog, now)
        if size_bytes > self.backlog_bytes_max:
            self.backlog_bytes_max = size_bytes

    def note_waited(self, waited_s: float) -> None:
        """A message that waited has been written."""
        if waited_s > self.waited_s_max:
            self.is_noted = True
            self.waited_s_max = waited_s

    def queue_s(self, now: float) -> float:
        """The longest wait of a message in this window, over or not."""
        waiting = [now - since for backlog, since in (self.queued or {}).items() if backlog.is_held]
        return max(self.waited_s_max, *waiting) if waiting else self.waited_s_max

    def note_loss(self, *, cuts: int, drops: int) -> None:
        self.is_noted = True
        self.cuts += cuts
        self.drops += drops


# By schema column, the counter on the topic that it is the growth of.
COUNTED = {
    "publications": "published",
    "deliveries": "delivered",
    "bytes_in": "bytes_in",
    "bytes_out": "bytes_out",
}
# Where in a row of counters the first of them is.
PUBLISHED = 0
# Columns that are counted on the meter, since few topics have them.
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

# Of topics that have done nothing yet, which are many where clients only subscribe.
_ZEROS = (0,) * len(COUNTED)

counters: Callable[[Topic], tuple[int, ...]] = attrgetter(*COUNTED.values())
meter_of: Callable[[Topic], TopicMeter] = attrgetter("meter")


def gather_lanes(topic: Topic) -> None:
    """What a topic's lanes have counted since is the topic's."""
    for lane in () if topic.beside is None else topic.beside.lanes.values():
        for counter in COUNTED.values():
            setattr(topic, counter, getattr(topic, counter) + getattr(lane, counter))
            setattr(lane, counter, 0)


def let_rest(topic: Topic) -> None:
    """It did nothing in the window: it has a meter no longer, until there is something to note again."""
    topic.meter = topic.publisher = None
    for stream in (topic, *(() if topic.beside is None else topic.beside.lanes.values())):
        audience = stream.audience
        if audience is not None and audience.receivers <= _FORGOTTEN_RECEIVERS:
            stream.audience = None
        elif audience is not None:
            audience.rest()


def role_of(topic: Topic) -> Role:
    """What the hub is to the topic."""
    if topic.is_home:
        return Role.HOME
    lanes = () if topic.beside is None else topic.beside.lanes.values()
    has_own = any(lane.is_home for lane in lanes)
    return Role.LANE if has_own else Role.RELAY
