"""The locations of this hub and of its clients.

Clients tell their places with EQ.WHERE; the kernel is asked about those that do not, when the location is wanted. One
that says it is much farther than the kernel finds is taken as one that does not say: it would break any limit at will.

Always true: a place that is kept belongs to a session that is connected, so there are no more than connections.
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
        # By session, where its client says it is.
        self._reported: dict[Subscriber, Place] = {}
        # Those of them that cannot be where they say; what is kept of them is how far they are.
        self._doubted: set[Subscriber] = set()
        self._doubt_s = core.settings.coordinates.distance_slack_s
        # Of those that do not say, what the kernel said of their connections.
        self._readings: dict[Subscriber, RoundTripReading] = {}
        self._tcp_rtt_for = core.settings.coordinates.tcp_rtt_for
        # Those with a latency limit; none where there is no store to say so.
        self._limited = Specs()
        self.renewing = LocationTracker(core, self)
        # The coordinate that was last asked for as bytes, and its bytes.
        self._written: tuple[Coordinate, bytes] | None = None
        self._origin = replace(Coordinate.unknown(self.settings), error=0.0)

    # --- the hub

    @property
    def own(self) -> Coordinate | None:
        """Where this hub is, as others are to know it; None until it has found out.

        One on its own is at the origin, and sure of it: there is nothing else to be placed by.
        """
        return self.probing.stability.announced or (
            self._origin if self._core.cluster.router.is_only_hub else None
        )

    def own_bytes(self) -> bytes | None:
        """The same as records have it."""
        own = self.own
        if own is None:
            return None
        if self._written is None or self._written[0] is not own:
            self._written = own, own.to_bytes()
        return self._written[1]

    def home_delays(self, topics: Sequence[Topic]) -> dict[str, Values]:
        """The column `home_delay_us` of records of these topics; nothing where all of them live here."""
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
        """The session's client says where it is."""
        reported_s = None if place.leg_s is None else 2 * place.leg_s
        rtt_s = self._core.shell.round_trip_s(session.wire)
        if rtt_s is None:
            # Where the kernel knows it, that counts: a client may say anything.
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
        """A client measures this hub, and so does the kernel its client."""
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
        """What topics need has changed. A pattern with a limit counts where a nearer one has none; no harm is done."""
        self._limited = Specs(spec for spec in specs if spec.latency_ms is not None)

    def asks_of(self, topic: bytes) -> bool:
        """Whether the kernel is asked about clients of the topic."""
        if self._tcp_rtt_for is TcpRttFor.LIMITED:
            return len(self._limited) > 0 and self._limited.of(topic) is not None
        return self._tcp_rtt_for is TcpRttFor.ALL

    def of(self, session: Subscriber, hub: Coordinate, now: float, *, asks: bool = True) -> Place | None:
        """Where the session's client is, if known; this hub is at `hub`. `asks`: the kernel, if need be."""
        place = self._reported.get(session)
        if place is not None and now >= place.until:
            # It reports no more, so it does not know itself, as one that has left its gateway.
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
        """Whether it may be known of any client at all."""
        if self._reported or self._tcp_rtt_for is TcpRttFor.ALL:
            return True
        return self._tcp_rtt_for is TcpRttFor.LIMITED and len(self._limited) > 0

    @property
    def located(self) -> int:
        """Clients that have said where they are."""
        return len(self._reported)

    @property
    def doubted(self) -> int:
        """Those of them that are not believed."""
        return len(self._doubted)

    @property
    def read(self) -> int:
        """Clients whose round trip the kernel has measured."""
        return sum(reading.rtt_s is not None for reading in self._readings.values())
