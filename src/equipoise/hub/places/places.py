"""Where this hub is, where its clients are, and what telemetry says of that for each topic.

Clients tell their places with EQ.WHERE; the kernel is asked about those that do not. Once per window, before records
are made, the topics are gone through whose clients have changed or were looked at some seconds ago. What that may cost
in a window is bounded; those that do not fit, the latest renewed, keep what was known of them until the next.

Always true: a place that is kept belongs to a session that is connected, so there are no more than connections.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import TYPE_CHECKING

from equipoise.coordinates import Coordinate, CoordinateSettings
from equipoise.hub.places.place import Place, Reading
from equipoise.hub.places.probing import Probing
from equipoise.hub.places.sides import STEP, side_of
from equipoise.hub.places.whereabouts import REFRESH_S, Whereabouts, subscribed_by

if TYPE_CHECKING:
    from equipoise.hub.core import HubCore
    from equipoise.hub.session import Session
    from equipoise.hub.topics import Topic

__all__ = ["Places"]

# Topics gone through in one go to find those that are due: some 0.2 ms.
SLICE = 1_000
# Clients looked at in a window, each topic counting as two more: some 10 ms, a hundredth of the window.
CLIENTS_MAX = 8_000
# What a topic with two clients costs beside them.
_TOPIC_COST = 2

_renewed_at = attrgetter("where.renewed_at")


class Places:
    """Owned by HubCore."""

    def __init__(self, core: HubCore) -> None:
        self._core = core
        self.settings = CoordinateSettings()
        self.probing = Probing(core, self.settings)
        # By session, where its client says it is.
        self._told: dict[Session, Place] = {}
        # Of those that do not say, what the kernel said of their connections.
        self._readings: dict[Session, Reading] = {}
        self._asks_kernel = core.settings.coordinates.asks_kernel
        # What the windows so far have left to be spent; below 0 where a large topic took more.
        self._left = 0
        self._origin = replace(Coordinate.unknown(self.settings), error=0.0)

    # --- the hub

    @property
    def own(self) -> Coordinate | None:
        """Where this hub is, as others are to know it; None until it has found out.

        One on its own is at the origin, and sure of it: there is nothing else to be placed by.
        """
        cluster = self._core.cluster
        return self.probing.told or (self._origin if cluster is None or not cluster.out else None)

    def own_bytes(self) -> bytes | None:
        own = self.own
        return None if own is None else own.to_bytes()

    # --- clients

    def tell(self, session: Session, place: Place) -> None:
        """The session's client says where it is."""
        self._told[session] = place
        self._readings.pop(session, None)
        if place.leg_s is not None:
            self.probing.client_at(2 * place.leg_s)

    def asked(self, session: Session) -> None:
        """A client measures this hub, and so does the kernel its client."""
        if self._asks_kernel and not self.probing.is_flat:
            rtt_s = self._core.shell.round_trip_s(session.wire)
            if rtt_s is not None:
                self.probing.client_at(rtt_s)

    def forget(self, session: Session) -> None:
        self._told.pop(session, None)
        self._readings.pop(session, None)

    def of(self, session: Session) -> Place | None:
        """Where the session's client is, if anybody knows."""
        place = self._told.get(session)
        if place is None and self._asks_kernel:
            return self._read(session)
        return place

    def _read(self, session: Session) -> Place | None:
        hub, now = self.own, self._core.now()
        if hub is None:
            return None
        reading = self._readings.get(session)
        if reading is None or now >= reading.until:
            rtt_s = self._core.shell.round_trip_s(session.wire)
            reading = self._readings[session] = Reading(rtt_s, now + REFRESH_S)
        return reading.place(hub, self.settings)

    @property
    def told(self) -> int:
        """Clients that have said where they are."""
        return len(self._told)

    @property
    def read(self) -> int:
        """Clients of which the kernel has told how far they are."""
        return sum(reading.rtt_s is not None for reading in self._readings.values())

    # --- topics

    def renew(self, topics: Sequence[Topic]) -> Iterator[None]:
        """Look again at where the clients of these topics are, where it is time; in steps that each take a moment."""
        hub = self.own
        if hub is None or not (self._told or self._asks_kernel):
            return
        self._left = min(CLIENTS_MAX, self._left + CLIENTS_MAX)
        now = self._core.now()
        due: list[Topic] = []
        for start in range(0, len(topics), SLICE):
            if start:
                yield
            due += _due(topics[start : start + SLICE], now)
        due.sort(key=_renewed_at)
        done = 0
        for topic in due:
            if self._left <= 0:
                break
            size = yield from self._renew(topic, hub)
            self._left -= size + _TOPIC_COST
            done += size + _TOPIC_COST
            if done >= STEP:
                done = 0
                yield

    def _renew(self, topic: Topic, hub: Coordinate) -> Generator[None, None, int]:
        """Make both sides of a topic anew; of how many clients."""
        core, where = self._core, topic.where
        assert where is not None, "what is due has been noted"
        audience = topic.audience or core.audience_of(topic)
        publishers, subscribers = where.published_by(core.sessions), subscribed_by(topic, audience)
        inward = yield from side_of(publishers, self.of, hub)
        outward = yield from side_of(subscribers, self.of, hub)
        where.audience = audience
        size = len(publishers) + len(subscribers)
        where.renewed((inward, outward), size, core.now())
        return size


def _due(topics: Sequence[Topic], now: float) -> list[Topic]:
    found = []
    for topic in topics:
        where = topic.where
        if where is None:
            where = topic.where = Whereabouts()
        elif where.is_quiet(topic, now):
            continue
        where.note(topic, now)
        if where.is_due(now):
            found.append(topic)
    return found
