"""Refresh the locations of clients of active topics, within bounds.

Runs once per window, before its records. A topic is refreshed when a client has joined or left it, when one of its
clients has moved, and periodically, at an interval that depends on its size. So the cost of a window depends on the
changes, plus a part of the rest. Topics that do not fit into a window are refreshed in the next, those that waited
longest first.

Little changes from window to window, so the columns of a slice of topics are reused while they are current. Blocks of
several windows then share them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from itertools import islice
from math import ceil
from operator import attrgetter
from typing import TYPE_CHECKING

from equipoise.hub.data.held_subscriptions import NO_SUBSCRIPTIONS
from equipoise.hub.data.patterns import Pattern
from equipoise.hub.data.topics import Topic
from equipoise.hub.locations.client_location import Delays
from equipoise.hub.locations.topic_locations import (
    NEVER,
    PER_CLIENT_S,
    PLAIN_REFRESH_S,
    REFRESH_S,
    STEP,
    TopicLocations,
    places_of,
    side_of,
    subscribed_by,
)
from equipoise.telemetry import NameColumn, Numbers, narrow

if TYPE_CHECKING:
    from equipoise.coordinates import Coordinate
    from equipoise.hub.core import HubCore
    from equipoise.hub.data.subscriber import Subscriber
    from equipoise.hub.locations.client_location import Place, Side
    from equipoise.hub.locations.locations import Locations
    from equipoise.hub.locations.topic_locations import Few
    from equipoise.hub.telemetry.meter import TopicMeter
    from equipoise.telemetry import Values

__all__ = ["LocationTracker"]

# Topics scanned in one step for recorded activity: about 0.1 ms.
SLICE = 1_000
# Clients processed in a window, each topic counting as two more: about 10 ms, a hundredth of the window.
CLIENTS_MAX = 8_000
_TOPIC_COST = 2
# For topics with at most so many clients, their places are kept, so that an unchanged side is not computed again.
FEW = 8
# Most topics of a client that moves that are refreshed early; a drone or a player has a handful.
MOVED_MAX = 64
# Most names matched per window with the patterns of clients that have moved: about 5 ms. Others wait for their turn.
MATCHES_MAX = 10_000

_meter: Callable[[Topic], TopicMeter] = attrgetter("meter")


class LocationTracker:
    """Owned by Locations."""

    def __init__(self, core: HubCore, places: Locations) -> None:
        self._core = core
        self._places = places
        self._columns = _Columns()
        # Topics by the second in which they are due. The entry under a topic's `second` is valid; others are void.
        self._later: dict[int, deque[Topic]] = {}
        # Remaining budget of clients; negative after a large topic.
        self._left = 0
        # Ids of connected clients that have moved since the last window; and patterns that some of them subscribe to.
        self._moved: set[int] = set()
        self._moved_patterns: dict[Pattern, None] = {}
        # Remaining number of names that this window may match with these patterns.
        self._matches_left = MATCHES_MAX
        # Whether topics may have places, current ones or ones to remove.
        self._is_stale = False

    def clear(self) -> None:
        """All topics were removed."""
        self._later.clear()
        self._moved_patterns.clear()

    def forget(self, session: Subscriber) -> None:
        self._moved.discard(session.id)

    def moved(self, session: Subscriber) -> None:
        """A client has moved: refresh its topics in the next window.

        Topics that it subscribes to by name are marked now. Topics that it publishes to, or subscribes to by pattern,
        are found at the end of the window.
        """
        now = self._core.now()
        self._moved.add(session.id)
        for _, targets in (session.subscriptions or NO_SUBSCRIPTIONS).items():
            for target in islice(targets.values(), MOVED_MAX):
                if isinstance(target, Pattern):
                    if len(self._moved_patterns) < MOVED_MAX:
                        self._moved_patterns[target] = None
                elif isinstance(target, Topic) and target.where is not None:
                    target.where.is_changed = True
                    self._see_to(target, target.where, now)

    def columns_of(self, topics: Sequence[Topic]) -> dict[str, Values]:
        """The location columns of records of these topics; none while no client's location is known."""
        return self._columns.of(topics) if self._is_stale else {}

    def renew(self, topics: Iterable[Topic]) -> Iterator[None]:
        """Refresh those of the active topics that are due, in steps of about a millisecond."""
        self._columns.begin()
        moved, patterns = self._moved, list(self._moved_patterns)
        self._moved, self._moved_patterns, self._matches_left = set(), {}, MATCHES_MAX
        hub = self._places.own
        is_known = self._places.is_known_of_some
        if hub is None or not (is_known or self._is_stale):
            return
        now = self._core.now()
        if not is_known:
            self._forget_all()
            return
        self._is_stale = True
        rest = iter(topics)
        while some := list(islice(rest, SLICE)):
            self._note(some, now)
            if moved:
                self._find_moved(some, moved, patterns, now)
            yield
        self._left = min(CLIENTS_MAX, self._left + CLIENTS_MAX)
        done = 0
        for topic in self._due(now):
            where = topic.where
            assert where is not None, "due topics have locations"
            cost = self._renew_few(topic, where, hub, now) or (yield from self._renew(topic, hub))
            self._left -= cost
            done += cost
            if done >= STEP:
                done = 0
                yield

    def _forget_all(self) -> None:
        """No client's location is known any more: remove all locations."""
        for topic in self._core.index.topics.values():
            topic.where = None
        self._later.clear()
        self._is_stale = False

    def _note(self, topics: Sequence[Topic], now: float) -> None:
        """Schedule the topics with recorded activity, and new ones."""
        for topic, meter in zip(topics, map(_meter, topics), strict=True):
            if meter.is_noted or topic.where is None:
                where = topic.where
                if where is None:
                    where = topic.where = TopicLocations()
                where.note(topic, now)
                self._see_to(topic, where, now)

    def _find_moved(
        self, topics: Sequence[Topic], moved: set[int], patterns: Sequence[Pattern], now: float
    ) -> None:
        """Schedule the topics that a moved client publishes to, or subscribes to by a pattern."""
        patterns = patterns[: self._matches_left // len(topics)]
        self._matches_left -= len(topics) * len(patterns)
        for topic in topics:
            where = topic.where
            if where is None or where.is_changed:
                continue
            if where.is_published_by(moved) or (patterns and _is_matched(topic.name, patterns)):
                where.is_changed = True
                self._see_to(topic, where, now)

    def _see_to(self, topic: Topic, where: TopicLocations, now: float) -> None:
        """Schedule the topic for the time at which it is due, unless it is scheduled earlier."""
        due_at = where.due_at
        second = ceil(due_at) if due_at > now else int(now)
        if second < where.second:
            where.second = second
            self._later.setdefault(second, deque()).append(topic)

    def _due(self, now: float) -> Iterator[Topic]:
        """The topics that are due, the earliest first, while budget is left."""
        for second in sorted(second for second in self._later if second <= now):
            waiting = self._later[second]
            while waiting:
                if self._left <= 0:
                    return
                topic = waiting.popleft()
                where = topic.where
                if where is None or where.second != second:
                    # The topic was scheduled earlier since.
                    continue
                where.second = NEVER
                if topic.meter is None:
                    # The topic is idle. Its next activity schedules it again.
                    continue
                where.note(topic, now)
                if where.due_at <= now:
                    yield topic
                else:
                    self._see_to(topic, where, now)
            del self._later[second]

    def _renew(self, topic: Topic, hub: Coordinate) -> Generator[None, None, int]:
        """Compute both sides of a topic with many clients, in steps; return the cost."""
        core, where = self._core, topic.where
        assert where is not None, "due topics have locations"
        audience = topic.audience or core.audience_of(topic)
        publishers, subscribers = where.published_by(core.sessions), subscribed_by(topic, audience)
        size = len(publishers) + len(subscribers)
        asks = self._places.asks_of(topic.name)

        def some_of(sessions: Sequence[Subscriber]) -> list[Place]:
            return self._known(sessions, hub, core.now(), asks)

        where.publishers = yield from side_of((yield from places_of(publishers, some_of)), hub)
        where.subscribers = yield from side_of((yield from places_of(subscribers, some_of)), hub)
        where.inward = where.outward = None
        where.audience, where.hub = audience, hub
        now = core.now()
        where.renewed(size, now, max(REFRESH_S, PER_CLIENT_S * size))
        self._see_to(topic, where, now)
        return size + _TOPIC_COST

    def _renew_few(self, topic: Topic, where: TopicLocations, hub: Coordinate, now: float) -> int:
        """Compute changed sides of a topic with few clients at once; return the cost, 0 if it has many clients."""
        core = self._core
        audience = topic.audience or core.audience_of(topic)
        publishers, subscribers = where.published_by(core.sessions), subscribed_by(topic, audience)
        size = len(publishers) + len(subscribers)
        if size > FEW:
            return 0
        asks = self._places.asks_of(topic.name)
        inward, outward = self._few(publishers, hub, now, asks), self._few(subscribers, hub, now, asks)
        is_moved = where.hub is not hub
        if is_moved or inward != where.inward:
            where.inward, where.publishers = inward, _side(inward, hub)
        if is_moved or outward != where.outward:
            where.outward, where.subscribers = outward, _side(outward, hub)
        where.audience, where.hub = audience, hub
        refresh_s = REFRESH_S if _is_reported(inward) or _is_reported(outward) else PLAIN_REFRESH_S
        where.renewed(size, now, refresh_s)
        self._see_to(topic, where, now)
        return size + _TOPIC_COST

    def _few(self, sessions: Sequence[Subscriber], hub: Coordinate, now: float, asks: bool) -> Few:
        if len(sessions) == 1:
            return self._places.of(sessions[0], hub, now, asks=asks)
        found = self._known(sessions, hub, now, asks)
        return tuple(found) if len(found) > 1 else found[0] if found else None

    def _known(self, sessions: Sequence[Subscriber], hub: Coordinate, now: float, asks: bool) -> list[Place]:
        of = self._places.of
        return [place for session in sessions if (place := of(session, hub, now, asks=asks)) is not None]


def _is_matched(name: bytes, patterns: Sequence[Pattern]) -> bool:
    return any(pattern.glob.matches(name) for pattern in patterns)


def _is_reported(few: Few) -> bool:
    if isinstance(few, tuple):
        return any([place.is_reported for place in few])  # noqa: C419  # faster for a few
    return few is not None and few.is_reported


def _side(few: Few, hub: Coordinate) -> Side | None:
    if not isinstance(few, tuple):
        return None if few is None else few.alone(hub)
    steps = side_of(few, hub)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]  # what the steps return


# --- columns of records -----------------------------------------------------------------------------------------------

_NUMBERS: dict[str, Callable[[Side], int]] = {
    **{name: attrgetter(name) for name in ("located", "deviation_us", "leg_us_max")},
    **{name: attrgetter(f"delays.{name}") for name in Delays._fields},
}
_where_of = attrgetter("where")
_SIDES = {name: attrgetter(name) for name in ("publishers", "subscribers")}


class _Columns:
    """Owned by LocationTracker. `begin` each window, then `of` slice by slice."""

    def __init__(self) -> None:
        self._slice = 0
        # By slice number and name of the side: the sides, and their columns.
        self._made: dict[tuple[int, str], tuple[list[Side | None], dict[str, Values]]] = {}

    def begin(self) -> None:
        # Remove the columns of slices that the last window did not have.
        self._made = {key: made for key, made in self._made.items() if key[0] <= self._slice}
        self._slice = 0

    def of(self, topics: Sequence[Topic]) -> dict[str, Values]:
        """The columns of a slice of topics; none if no location is known."""
        self._slice += 1
        known = list(map(_where_of, topics))
        if not any(known):
            return {}
        values: dict[str, Values] = {}
        for name, of in _SIDES.items():
            sides = list(map(of, known)) if all(known) else [where and of(where) for where in known]
            values |= self._columns(name, sides)
        return values

    def _columns(self, name: str, sides: list[Side | None]) -> dict[str, Values]:
        key = self._slice, name
        made = self._made.get(key)
        if made is None or made[0] != sides:
            made = self._made[key] = (sides, _made_of(name, sides))
        return made[1]


def _made_of(name: str, sides: Sequence[Side | None]) -> dict[str, Values]:
    known = [side for side in sides if side is not None]
    if not known:
        return {}
    if len(known) < len(sides):
        return {
            f"{name}_at": NameColumn.of_optional([None if side is None else side.at for side in sides]),
            **{
                f"{name}_{key}": Numbers.of_optional([None if side is None else of(side) for side in sides])
                for key, of in _NUMBERS.items()
            },
        }
    at = [side.at for side in known]
    return {
        f"{name}_at": at[0] if at.count(at[0]) == len(at) else NameColumn.of(at),
        **{f"{name}_{key}": narrow(list(map(of, known))) for key, of in _NUMBERS.items()},
    }
