"""The locations of this hub and of its clients.

Clients report their places with EQ.WHERE; for others, the hub reads the round trip from the kernel when it needs the
location. A client that reports to be much farther than the kernel's measurement is treated as one without a report:
otherwise it could break any latency limit at will.

Always true: each place belongs to a connected session, so there are no more places than connections.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import ceil
from typing import TYPE_CHECKING

from equipoise.coordinates import Coordinate, CoordinateSettings
from equipoise.hub.locations.client_location import Place, RoundTripReading, behind
from equipoise.hub.locations.location_tracker import LocationTracker
from equipoise.hub.locations.probes import LocationProbes
from equipoise.hub.locations.settings import TcpRttFor
from equipoise.hub.locations.topic_locations import REFRESH_S
from equipoise.model import Specs
from equipoise.telemetry import Numbers

if TYPE_CHECKING:
    from equipoise.hub.core import HubCore
    from equipoise.hub.data.subscriber import Subscriber
    from equipoise.hub.data.topic import Topic
    from equipoise.telemetry import Values

__all__ = ["Locations"]


class Locations:
    """Owned by HubCore."""

    def __init__(self, core: HubCore) -> None:
        self._core = core
        self.settings = CoordinateSettings()
        self.probing = LocationProbes(core, self.settings)
        # By session, the place that its client has reported.
        self._reported: dict[Subscriber, Place] = {}
        # Sessions with an implausible report; only their distance is kept.
        self._doubted: set[Subscriber] = set()
        self._doubt_s = core.settings.coordinates.distance_slack_s
        # For sessions without a report, the kernel's measurement.
        self._readings: dict[Subscriber, RoundTripReading] = {}
        self._tcp_rtt_for = core.settings.coordinates.tcp_rtt_for
        # The specs with a latency limit; empty without a store.
        self._limited = Specs()
        self.renewing = LocationTracker(core, self)
        # The coordinate that was last encoded, and its bytes.
        self._written: tuple[Coordinate, bytes] | None = None
        self._origin = replace(Coordinate.unknown(self.settings), error=0.0)

    # --- the hub

    @property
    def own(self) -> Coordinate | None:
        """The announced coordinate of this hub; None until it is known.

        A hub without other hubs is at the origin, without error: it has no reference points.
        """
        return self.probing.stability.announced or (
            self._origin if self._core.cluster.router.is_only_hub else None
        )

    def own_bytes(self) -> bytes | None:
        """The same, encoded as in records."""
        own = self.own
        if own is None:
            return None
        if self._written is None or self._written[0] is not own:
            self._written = own, own.to_bytes()
        return self._written[1]

    def home_delays(self, topics: Sequence[Topic]) -> dict[str, Values]:
        """The column `home_delay_us` of records of these topics; none if this hub is the home of all."""
        if self._core.cluster.is_alone or not self.is_known_of_some:
            return {}
        home_of, measured = self._core.cluster.router.home, self.probing.round_trip_s
        found: list[int | None] = []
        for topic in topics:
            home = None if topic.is_home else home_of(topic.name)
            rtt_s = None if home is None else measured(home)
            found.append(None if rtt_s is None else ceil(5e5 * rtt_s))
        return {"home_delay_us": Numbers.of_optional(found)} if any(found) else {}

    # --- clients

    def tell(self, session: Subscriber, place: Place) -> None:
        """The session's client reports its place."""
        reported_s = None if place.leg_s is None else 2 * place.leg_s
        rtt_s = self._core.shell.round_trip_s(session.wire)
        if rtt_s is None:
            # The kernel's measurement has precedence, because a client may report anything.
            rtt_s = reported_s
            self._client_at(reported_s)
        elif self._tcp_rtt_for is TcpRttFor.NONE:
            rtt_s = reported_s
        else:
            self._client_at(rtt_s)
        own = self.own
        if own is None or rtt_s is None or place.is_plausible(own, rtt_s, self._doubt_s):
            self._doubted.discard(session)
        else:
            self._doubted.add(session)
            place = behind(own, rtt_s, self.settings)
        now, former = self._core.now(), self._reported.get(session)
        if former is not None and now < former.until and place.is_as(former):
            place = former
        else:
            self._reported[session] = place
            self.renewing.moved(session)
        place.said(now, former)
        self._readings.pop(session, None)

    def asked(self, session: Subscriber) -> None:
        """A client has requested this hub's coordinate: read its round trip from the kernel."""
        if self._tcp_rtt_for is not TcpRttFor.NONE and not self.probing.is_flat:
            self._client_at(self._core.shell.round_trip_s(session.wire))

    def _client_at(self, rtt_s: float | None) -> None:
        if rtt_s is not None:
            self.probing.client_at(rtt_s)

    def forget(self, session: Subscriber) -> None:
        self._reported.pop(session, None)
        self._doubted.discard(session)
        self._readings.pop(session, None)
        self.renewing.forget(session)

    def follow(self, specs: Specs) -> None:
        """The specs have changed. A pattern with a limit counts even if a more specific spec has none (harmless)."""
        self._limited = Specs(spec for spec in specs if spec.latency_ms is not None)

    def asks_of(self, topic: bytes) -> bool:
        """Whether to read round trips of the topic's clients from the kernel."""
        if self._tcp_rtt_for is TcpRttFor.LIMITED:
            return len(self._limited) > 0 and self._limited.of(topic) is not None
        return self._tcp_rtt_for is TcpRttFor.ALL

    def of(self, session: Subscriber, hub: Coordinate, now: float, *, asks: bool = True) -> Place | None:
        """The place of the session's client, if known. `hub`: this hub's coordinate; `asks`: may read TCP_INFO."""
        place = self._reported.get(session)
        if place is not None and now >= place.until:
            # The client has stopped reporting, as after it has left its gateway.
            place = None
        if place is not None or not asks or session.is_closing:
            return place
        reading = self._readings.get(session)
        if reading is None:
            reading = self._readings[session] = RoundTripReading()
        if now >= reading.until:
            reading.take(self._core.shell.round_trip_s(session.wire), now + REFRESH_S)
        return reading.place(hub, self.settings)

    @property
    def is_known_of_some(self) -> bool:
        """Whether the location of any client may be known."""
        if self._reported or self._tcp_rtt_for is TcpRttFor.ALL:
            return True
        return self._tcp_rtt_for is TcpRttFor.LIMITED and len(self._limited) > 0

    @property
    def located(self) -> int:
        """Number of clients with a report."""
        return len(self._reported)

    @property
    def doubted(self) -> int:
        """Number of clients with an implausible report."""
        return len(self._doubted)

    @property
    def read(self) -> int:
        """Number of clients whose round trip was read from the kernel."""
        return sum(reading.rtt_s is not None for reading in self._readings.values())
