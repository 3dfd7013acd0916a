"""Make records of a slice of topics: what each did since its window began.

Column by column as far as may be, since that is done in C: a topic takes some 1.2 µs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import attrgetter, ne, sub
from typing import TYPE_CHECKING

from equipoise.telemetry import Names, Role, Values, narrow

if TYPE_CHECKING:
    from equipoise.hub.audience import Audience
    from equipoise.hub.meter import TopicMeter
    from equipoise.hub.topics import Topic

__all__ = ["PUBLISHED", "Rows", "Sums", "add_hidden", "counters", "gather_lanes", "rows_of"]

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
_meter: Callable[[Topic], TopicMeter] = attrgetter("meter")
_stream = attrgetter("stream")
_beside = attrgetter("beside")


class Sums(dict[str, int]):
    """Over all topics of a window, by column; of the two that name a greatest, the greatest."""

    def __init__(self) -> None:
        super().__init__(dict.fromkeys((*COUNTED, *NOTED, *_GREATEST), 0))


@dataclass(frozen=True, slots=True)
class Rows:
    """Records of topics, column by column."""

    # Exactly the topics that did something: those to be looked at again.
    topics: list[Topic]
    values: dict[str, Values]


def rows_of(
    topics: list[Topic],
    sums: Sums,
    now: float,
    audience_of: Callable[[Topic], Audience],
    places_of: Callable[[Sequence[Topic]], dict[str, Values]],
) -> Rows:
    """Read the meters and begin their next window. Topics that did nothing have none any more."""
    if any(map(_beside, topics)):
        for topic in topics:
            gather_lanes(topic)
    meters, counted, before = _read(topics)
    if not all(map(ne, counted, before)):
        topics = _awake(topics)
        meters, counted, before = _read(topics)
    if not topics:
        return Rows([], {})
    # Without an audience somebody has come or gone since the last message; compiling it now costs nothing more.
    audiences = [topic.audience or audience_of(topic) for topic in topics]
    grown = _growth(sums, counted, before)
    noted = [i for i, meter in enumerate(meters) if meter.is_noted]
    values: dict[str, Values] = {
        "topic": Names.of([topic.name for topic in topics]),
        "role": _roles(topics),
        **{name: 0 if growth is None else narrow(growth) for name, growth in grown.items()},
        **_counted_notes(sums, meters, noted),
        "publishers": _narrow(_publishers(topics, meters, grown["publications"], noted)),
        "subscribers": _narrow([audience.clients for audience in audiences]),
        "relays": _relays(audiences),
        **_greatest(sums, meters, noted, now),
        **places_of(topics),
    }
    _begin_windows(meters, counted, noted)
    return Rows(topics, values)


def gather_lanes(topic: Topic) -> None:
    """What a topic's lanes have counted since is the topic's."""
    for lane in () if topic.beside is None else topic.beside.lanes.values():
        for counter in COUNTED.values():
            setattr(topic, counter, getattr(topic, counter) + getattr(lane, counter))
            setattr(lane, counter, 0)


def add_hidden(topics: Sequence[Topic], sums: Sums) -> list[Topic]:
    """As `rows_of`, of topics that have no records of their own."""
    awake = _awake(topics)
    if awake:
        meters, counted, before = _read(awake)
        _growth(sums, counted, before)
        _counted_notes(sums, meters, range(len(meters)))
        _begin_windows(meters, counted, range(len(meters)))
    return awake


def _read(topics: Sequence[Topic]) -> tuple[list[TopicMeter], list[tuple[int, ...]], list[tuple[int, ...]]]:
    """The topics' meters, their counters now, and when the window began."""
    meters = list(map(_meter, topics))
    return meters, list(map(counters, topics)), [meter.counted for meter in meters]


def _awake(topics: Sequence[Topic]) -> list[Topic]:
    """Those that did something; the others have a meter no longer."""
    awake = []
    for topic in topics:
        meter = _meter(topic)
        if meter.is_noted or counters(topic) != meter.counted:
            awake.append(topic)
            continue
        topic.meter = topic.publisher = None
        for stream in (topic, *(() if topic.beside is None else topic.beside.lanes.values())):
            if stream.audience is not None:
                stream.audience.rest()
    return awake


def _begin_windows(
    meters: Sequence[TopicMeter], counted: Sequence[tuple[int, ...]], noted: Sequence[int]
) -> None:
    for meter, numbers in zip(meters, counted, strict=True):
        meter.counted = numbers
    for i in noted:
        meters[i].forget_notes()


def _growth(
    sums: Sums, counted: Sequence[tuple[int, ...]], before: Sequence[tuple[int, ...]]
) -> dict[str, list[int] | None]:
    """How much the counters of each topic have grown, None if not at all; and that much more in `sums`."""
    grown: dict[str, list[int] | None] = {}
    columns = zip(COUNTED, zip(*counted, strict=True), zip(*before, strict=True), strict=True)
    for name, column, former in columns:
        if column == former:
            # So are most columns of most slices.
            grown[name] = None
        else:
            growth = grown[name] = list(map(sub, column, former))
            sums[name] += sum(growth)
    return grown


def _counted_notes(sums: Sums, meters: Sequence[TopicMeter], noted: Sequence[int]) -> dict[str, Values]:
    values: dict[str, Values] = dict.fromkeys(NOTED, 0)
    found = [(i, notes) for i in noted if any(notes := _notes(meters[i]))]
    if found:
        columns = [[0] * len(meters) for _ in NOTED]
        for i, notes in found:
            for column, number in zip(columns, notes, strict=True):
                column[i] = number
        for name, column in zip(NOTED, columns, strict=True):
            sums[name] += sum(column)
            values[name] = _narrow(column)
    return values


def _publishers(
    topics: Sequence[Topic], meters: Sequence[TopicMeter], published: list[int] | None, noted: Sequence[int]
) -> list[int]:
    """One where the last publisher has published and no other did; where others did, they are noted."""
    counts = [0] * len(topics)
    if published is not None:
        counts = [
            int(count > 0 and topic.publisher is not None)
            for topic, count in zip(topics, published, strict=True)
        ]
    for i in noted:
        meter = meters[i]
        if meter.seen is not None:
            counts[i] = len(meter.seen)
        elif meter.ingress_messages and topics[i].publisher is not None:
            counts[i] = 1
    return counts


def _greatest(
    sums: Sums, meters: Sequence[TopicMeter], noted: Sequence[int], now: float
) -> dict[str, Values]:
    values: dict[str, Values] = dict.fromkeys(_GREATEST, 0)
    lagging = [i for i in noted if meters[i].backlog is not None]
    if lagging:
        sizes, ages_us = [0] * len(meters), [0] * len(meters)
        for i in lagging:
            backlog = meters[i].backlog
            assert backlog is not None, "see above"
            sizes[i], ages_us[i] = meters[i].backlog_bytes_max, int((now - backlog.since) * 1e6)
        for name, column in zip(_GREATEST, (sizes, ages_us), strict=True):
            sums[name] = max(sums[name], *column)
            values[name] = narrow(column)
    return values


def _relays(audiences: Sequence[Audience]) -> Values:
    if not any([audience.hubs for audience in audiences]):  # noqa: C419  # a list is half the time of a generator
        return 0
    return narrow([len(audience.hubs) for audience in audiences])


def _narrow(column: Sequence[int]) -> Values:
    return narrow(column) if any(column) else 0


def _roles(topics: Sequence[Topic]) -> Values:
    if not any(map(_stream, topics)):
        return Role.HOME.value
    return Names.of([_role(topic).value.encode() for topic in topics])


def _role(topic: Topic) -> Role:
    if topic.stream is None or topic.stream.state.is_home:
        return Role.HOME
    lanes = () if topic.beside is None else topic.beside.lanes.values()
    has_own = any(lane.stream is None or lane.stream.state.is_home for lane in lanes)
    return Role.LANE if has_own else Role.RELAY
