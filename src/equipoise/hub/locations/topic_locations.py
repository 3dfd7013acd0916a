"""The clients of one topic and their locations, summarised in constant space.

A publisher counts for a while after its last message: otherwise one that publishes every few seconds would alternate
from record to record, and the topic's centroid with it.

Many clients are summarised as one side, by ePulsar 3.2 (`coordinates.centroid`). Ten thousand take about 25 ms, so this
is done in steps. Deviations and legs are rounded up, because they are bounds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from heapq import nlargest
from itertools import chain
from operator import itemgetter
from typing import TYPE_CHECKING, TypeAlias

from equipoise.coordinates.centroid import CANDIDATES, centre_of, deviation_s
from equipoise.coordinates.coordinate import Coordinate
from equipoise.hub.locations.client_location import Delays, Side
from equipoise.hub.telemetry.meter import PUBLISHERS_MAX

if TYPE_CHECKING:
    from equipoise.coordinates import Coordinate
    from equipoise.hub.data.audience import Audience
    from equipoise.hub.data.subscriber import Subscriber
    from equipoise.hub.data.topic import Topic
    from equipoise.hub.locations.client_location import Place

__all__ = [
    "LATELY_S",
    "NEVER",
    "PER_CLIENT_S",
    "PLAIN_REFRESH_S",
    "REFRESH_S",
    "STEP",
    "Few",
    "TopicLocations",
    "places_of",
    "side_of",
    "subscribed_by",
]

# The place of one client, a tuple of a few, or None: of no client, or of many. A single place is not in a tuple,
# because the garbage collector would have to visit all these tuples.
Few: TypeAlias = "Place | tuple[Place, ...] | None"

# Interval of refreshes in seconds. Clients report every 5 s (ePulsar 3.2); refreshing more often finds little new.
REFRESH_S = 5.0
# Interval for topics whose clients do not report: these rarely move.
PLAIN_REFRESH_S = 10.0
# A client is a publisher for so many seconds after its last message: longer than the interval of refreshes, at which a
# single publisher is recorded.
LATELY_S = 15.0
# Least seconds per client between refreshes of a topic, whatever changes: at most 2,000 clients of a topic per second.
PER_CLIENT_S = 0.0005
NEVER = float("inf")


class TopicLocations:
    """Owned by LocationTracker. Created at the topic's first activity while locations are known."""

    __slots__ = (
        "_published",
        "_publishers",
        "audience",
        "hub",
        "inward",
        "is_changed",
        "outward",
        "publishers",
        "renewed_at",
        "second",
        "size",
        "subscribers",
        "until",
    )

    def __init__(self) -> None:
        # By session id, the time of its last recorded publish.
        self._publishers: dict[int, float] = {}
        # The topic's counter of messages at the last `note`.
        self._published = -1
        # The inputs of the two sides: the audience; the hub's coordinate; the places of publishers and of subscribers,
        # if they are few.
        self.audience: Audience | None = None
        self.hub: Coordinate | None = None
        self.inward: Few = None
        self.outward: Few = None
        self.publishers: Side | None = None
        self.subscribers: Side | None = None
        # Time at which the sides were computed, time at which they are due again, and number of clients.
        self.renewed_at = self.until = float("-inf")
        self.size = 0
        # Whether a client has joined, left or moved since.
        self.is_changed = True
        # The second of its next refresh.
        self.second = NEVER

    def note(self, topic: Topic, now: float) -> None:
        """Record the publishers of the current window, and remove those without a message for LATELY_S."""
        publishers, meter = self._publishers, topic.meter
        has_published = self._has_published(topic)
        if meter is not None and meter.seen is None and topic.publisher in publishers and has_published:
            # The usual case: one publisher, the same as before.
            publishers[topic.publisher] = now
            self.is_changed |= self.audience is not topic.audience
            if len(publishers) == 1:
                return
        before = len(publishers)
        if meter is not None and meter.seen is not None:
            publishers.update(dict.fromkeys(meter.seen, now))
        elif topic.publisher is not None and has_published:
            publishers[topic.publisher] = now
        self.is_changed |= len(publishers) != before or self.audience is not topic.audience
        oldest = min(publishers.values(), default=now)
        if len(publishers) > PUBLISHERS_MAX or oldest <= now - LATELY_S:
            recent = sorted(publishers.items(), key=lambda item: -item[1])[:PUBLISHERS_MAX]
            self._publishers = {publisher: at for publisher, at in recent if at > now - LATELY_S}
            self.is_changed |= len(self._publishers) != len(publishers)

    def _has_published(self, topic: Topic) -> bool:
        """Whether the topic's publisher has published since the last call; at the first call, in the current window."""
        meter, before = topic.meter, self._published
        self._published = topic.published
        if meter is None:
            return False
        began = meter.published_before if before < 0 else min(before, meter.published_before)
        return topic.published != began or meter.ingress_messages > 0

    @property
    def due_at(self) -> float:
        return self.renewed_at + PER_CLIENT_S * self.size if self.is_changed else self.until

    def published_by(self, sessions: Mapping[int, Subscriber]) -> list[Subscriber]:
        """The publishers that are still connected."""
        return [session for number in self._publishers if (session := sessions.get(number)) is not None]

    def is_published_by(self, sessions: AbstractSet[int]) -> bool:
        """Whether one of these session ids is among the publishers."""
        return not self._publishers.keys().isdisjoint(sessions)

    def renewed(self, size: int, now: float, refresh_s: float) -> None:
        self.size, self.is_changed = size, False
        self.renewed_at, self.until = now, now + refresh_s


def subscribed_by(topic: Topic, audience: Audience) -> list[Subscriber]:
    """The clients that receive the topic here, or one of its lanes."""
    if topic.beside is None and len(audience.groups) == 1 and not audience.stages:
        return audience.groups[0][1]
    audiences = [audience]
    if topic.beside is not None:
        audiences += [lane.audience for lane in topic.beside.lanes.values() if lane.audience is not None]
    sessions = list(chain.from_iterable(some for one in audiences for some in one.sessions()))
    return sessions if len(audiences) == 1 else list(dict.fromkeys(sessions))


# A client's deviation from the mean, and its coordinate.
Away: TypeAlias = "tuple[float, Coordinate]"
# Clients processed in one step: half a millisecond, at most one if each is read from the kernel.
STEP = 250


def places_of(
    sessions: Sequence[Subscriber], some_of: Callable[[Sequence[Subscriber]], Sequence[Place]]
) -> Generator[None, None, list[Place]]:
    """The known places of the sessions. Yields between steps."""
    places: list[Place] = []
    for start in range(0, len(sessions), STEP):
        if start:
            yield
        places += some_of(sessions[start : start + STEP])
    return places


def side_of(places: Sequence[Place], hub: Coordinate) -> Generator[None, None, Side | None]:
    """Summarise places as one side; None if there are none. Yields between steps."""
    if len(places) <= 1:
        return places[0].alone(hub) if places else None
    mean = yield from _centroid(places)
    farthest: list[Away] = []
    leg_s_max = 0.0
    measured_s: list[float] = []
    for at, some in enumerate(_steps(places)):
        if at:
            yield
        away = [(deviation_s(place.coordinate, mean), place.coordinate) for place in some]
        farthest = nlargest(CANDIDATES, chain(farthest, away), key=itemgetter(0))
        leg_s_max = max(leg_s_max, *[place.leg_from_s(hub) for place in some])
        measured_s += [place.leg_s for place in some if place.leg_s is not None]
    centre, mean_s = centre_of(mean, [coordinate for _, coordinate in farthest]), farthest[0][0]
    centre_s = 0.0
    for at, some in enumerate(_steps(places)):
        if at:
            yield
        centre_s = max(centre_s, *[deviation_s(place.coordinate, centre) for place in some])
    where, deviation = (centre, centre_s) if centre_s < mean_s else (mean, mean_s)
    deviation_us, leg_us_max = math.ceil(1e6 * deviation / 2), math.ceil(1e6 * leg_s_max)
    return Side(where.to_bytes(), len(places), deviation_us, leg_us_max, Delays.of(measured_s))


def _steps(places: Sequence[Place]) -> Iterator[Sequence[Place]]:
    return (places[start : start + STEP] for start in range(0, len(places), STEP))


def _centroid(places: Sequence[Place]) -> Generator[None, None, Coordinate]:
    """The same as `coordinates.centroid_of`, in steps."""
    sums: list[tuple[float, ...]] = []
    for start in range(0, len(places), STEP):
        if start:
            yield
        rows = [place.coordinate.numbers for place in places[start : start + STEP]]
        sums.append(tuple(map(math.fsum, zip(*rows, strict=True))))
    count = len(places)
    *point, error, height_s, adjustment_s = (math.fsum(column) / count for column in zip(*sums, strict=True))
    return Coordinate(tuple(point), error, height_s, adjustment_s)
