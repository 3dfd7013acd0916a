"""What is known of one topic's present window, and what a record of it is made from.

A meter holds what there is beside the topic's counters. Most topics have one publisher and nothing else to tell, and
that costs nothing: only a change of publisher is noted, and what came before the first change came from the last
publisher there was. Records are made in `window`, for many topics at once; few of them have anything noted, and what is
done about those is here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Protocol

from equipoise.telemetry import NameColumn, Role, Values, narrow

if TYPE_CHECKING:
    from equipoise.hub.data.topic import Topic

__all__ = [
    "COUNTED",
    "PUBLISHED",
    "PUBLISHERS_MAX",
    "Sums",
    "TopicMeter",
    "add_hidden",
    "counted_notes",
    "counters",
    "gather_lanes",
    "greatest",
    "let_rest",
    "meter_of",
    "one_or_each",
    "roles",
]

# Publishers told apart in one window: beyond any decision that is taken by their number, and 64 KiB at most.
PUBLISHERS_MAX = 1_000


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
        "ingress_bytes",
        "ingress_messages",
        "is_noted",
        "queued",
        "row",
        "seen",
        "waited_s_max",
    )

    def __init__(self, topic: Topic) -> None:
        # The topic's counters when the window began. Once the topic is in a slice, the messages of all of the
        # slice's topics, of which it is one.
        self.counted: Sequence[int] = counters(topic)
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
NOTED = ("ingress_messages", "ingress_bytes", "egress_messages", "egress_bytes", "cuts", "drops")
_GREATEST = ("backlog_bytes_max", "queue_us_max")

counters: Callable[[Topic], tuple[int, ...]] = attrgetter(*COUNTED.values())
_notes: Callable[[TopicMeter], tuple[int, ...]] = attrgetter(*NOTED)
meter_of: Callable[[Topic], TopicMeter] = attrgetter("meter")
_stream = attrgetter("stream")


class Sums(dict[str, int]):
    """Over all topics of a window, by column; of the two that name a greatest, the greatest."""

    def __init__(self) -> None:
        super().__init__(dict.fromkeys((*COUNTED, *NOTED, *_GREATEST), 0))


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
        if stream.audience is not None:
            stream.audience.rest()


def add_hidden(topics: Sequence[Topic], sums: Sums) -> list[Topic]:
    """Add up what topics without records of their own did, and begin their next window; those that did something."""
    awake = []
    for topic in topics:
        meter, counted = meter_of(topic), counters(topic)
        if not meter.is_noted and counted == meter.counted:
            let_rest(topic)
            continue
        awake.append(topic)
        for name, now, before in zip(COUNTED, counted, meter.counted, strict=True):
            sums[name] += now - before
        for name, number in zip(NOTED, _notes(meter), strict=True):
            sums[name] += number
        meter.counted = counted
        meter.forget_notes()
    return awake


def counted_notes(sums: Sums, meters: Sequence[TopicMeter], noted: Sequence[int]) -> dict[str, Values]:
    values: dict[str, Values] = dict.fromkeys(NOTED, 0)
    found = [(i, notes) for i in noted if any(notes := _notes(meters[i]))]
    if found:
        columns = [[0] * len(meters) for _ in NOTED]
        for i, notes in found:
            for column, number in zip(columns, notes, strict=True):
                column[i] = number
        for name, column in zip(NOTED, columns, strict=True):
            sums[name] += sum(column)
            values[name] = one_or_each(column)
    return values


def greatest(sums: Sums, meters: Sequence[TopicMeter], noted: Sequence[int], now: float) -> dict[str, Values]:
    values: dict[str, Values] = dict.fromkeys(_GREATEST, 0)
    values["subscribers_queued"] = 0
    lagging = [i for i in noted if meters[i].queued is not None or meters[i].waited_s_max]
    if lagging:
        sizes, ages_us, clients = ([0] * len(meters) for _ in range(3))
        for i in lagging:
            meter = meters[i]
            sizes[i], ages_us[i] = meter.backlog_bytes_max, int(meter.queue_s(now) * 1e6)
            clients[i] = len(meter.queued or ())
        for name, column in zip(_GREATEST, (sizes, ages_us), strict=True):
            sums[name] = max(sums[name], *column)
            values[name] = narrow(column)
        values["subscribers_queued"] = narrow(clients)
    return values


def one_or_each(column: Sequence[int]) -> Values:
    """One value for all where they are the same."""
    return column[0] if column.count(column[0]) == len(column) else narrow(column)


def roles(topics: Sequence[Topic]) -> Values:
    if not any(map(_stream, topics)):
        return Role.HOME.value
    return NameColumn.of([_role(topic).value.encode() for topic in topics])


def _role(topic: Topic) -> Role:
    if topic.is_home:
        return Role.HOME
    lanes = () if topic.beside is None else topic.beside.lanes.values()
    has_own = any(lane.is_home for lane in lanes)
    return Role.LANE if has_own else Role.RELAY
