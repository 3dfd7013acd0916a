"""The clients of one topic and their locations, summarised in constant space.

A publisher counts for a while after its last message: one that publishes every few seconds would come and go with every
record otherwise, and the topic's place with it.

Many clients become one side, by ePulsar 3.2 (`coordinates.centroid`). Ten thousand take some 25 ms to look at, so it is
done in steps that each take a moment. What is rounded is rounded up: deviations and legs are bounds.
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

# The place of one client, those of a few, or nothing: of none, or of many. One is not in a tuple, since the garbage
# collector would have to look at all of these.
Few: TypeAlias = "Place | tuple[Place, ...] | None"

# Clients tell where they are every 5 s (ePulsar 3.2); looking more often finds little that is new.
REFRESH_S = 5.0
# Those of which only the kernel knows stay where they are, by and large.
PLAIN_REFRESH_S = 10.0
# Who published within this time is a publisher: longer than that, since a lone publisher is noted only at a refresh.
LATELY_S = 15.0
# No client is looked at more often than this allows, whatever changes: at most 2,000 clients of a topic in a second.
PER_CLIENT_S = 0.0005
NEVER = float("inf")


class TopicLocations:
    """Owned by Renewing; lives as long as its topic, once the topic was used while locations could be known."""

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
        # By the session's number, when it was last seen to have published.
        self._publishers: dict[int, float] = {}
        # The topic's count of messages when that was noted.
        self._published = -1
        # What the two sides were made from: the audience; the hub's own place; those of publishers and subscribers,
        # where they are few.
        self.audience: Audience | None = None
        self.hub: Coordinate | None = None
        self.inward: Few = None
        self.outward: Few = None
        self.publishers: Side | None = None
        self.subscribers: Side | None = None
        # When they were made, when they are due again, and of how many clients.
        self.renewed_at = self.until = float("-inf")
        self.size = 0
        # Whether a client has come, gone or moved since.
        self.is_changed = True
        # The second in which it has its next turn.
        self.second = NEVER

    def note(self, topic: Topic, now: float) -> None:
        """Take in who has published in the present window, and forget who has not for long."""
        publishers, meter = self._publishers, topic.meter
        has_published = self._has_published(topic)
        if meter is not None and meter.seen is None and topic.publisher in publishers and has_published:
            # So it is with most topics most of the time.
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
        """Whether the topic's publisher has, since that was asked last; in the present window at first."""
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
        """Whether one of these sessions, by their numbers, is among the publishers; takes as long as the fewer."""
        return not self._publishers.keys().isdisjoint(sessions)

    def renewed(self, size: int, now: float, refresh_s: float) -> None:
        self.size, self.is_changed = size, False
        self.renewed_at, self.until = now, now + refresh_s


def subscribed_by(topic: Topic, audience: Audience) -> list[Subscriber]:
    """The clients that get the topic here, or one of its lanes."""
    if topic.beside is None and len(audience.groups) == 1 and not audience.stages:
        return audience.groups[0][1]
    audiences = [audience]
    if topic.beside is not None:
        audiences += [lane.audience for lane in topic.beside.lanes.values() if lane.audience is not None]
    sessions = list(chain.from_iterable(some for one in audiences for some in one.sessions()))
    return sessions if len(audiences) == 1 else list(dict.fromkeys(sessions))


# How far a client is from the mean, and where it is.
Away: TypeAlias = "tuple[float, Coordinate]"
# Clients looked at in one go: half a millisecond, and no more than one where the kernel has to be asked about each.
STEP = 250


def places_of(
    sessions: Sequence[Subscriber], some_of: Callable[[Sequence[Subscriber]], Sequence[Place]]
) -> Generator[None, None, list[Place]]:
    """Of those of whom it is known. Yields between steps."""
    places: list[Place] = []
    for start in range(0, len(sessions), STEP):
        if start:
            yield
        places += some_of(sessions[start : start + STEP])
    return places


def side_of(places: Sequence[Place], hub: Coordinate) -> Generator[None, None, Side | None]:
    """Yields between steps; returns None if there is no client."""
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
    """As `coordinates.centroid_of`, in steps."""
    sums: list[tuple[float, ...]] = []
    for start in range(0, len(places), STEP):
        if start:
            yield
        rows = [place.coordinate.numbers for place in places[start : start + STEP]]
        sums.append(tuple(map(math.fsum, zip(*rows, strict=True))))
    count = len(places)
    *point, error, height_s, adjustment_s = (math.fsum(column) / count for column in zip(*sums, strict=True))
    return Coordinate(tuple(point), error, height_s, adjustment_s)
