"""The location of one client, as far as the hub knows it.

A smart client tells its coordinate and the round trip that it measured. Of a plain one the kernel knows the round trip
and the direction is unknown: it is placed behind this hub, by that much higher. Seen from any other hub it is then as
far as by way of this one: never less than it is, by the triangle inequality, and just what its messages take when their
topic lives there, since a plain client stays where it is connected and this hub relays.

Not taken: so high that the coordinate's distance to this hub is the round trip. Where hubs have heights themselves,
others would look nearer than they can be. The client's distance from this hub is kept apart from that, as measured.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from equipoise.coordinates import Coordinate, CoordinateSettings

__all__ = ["HOLDS_S", "Delays", "Place", "RoundTripReading", "Side", "behind"]

# A leg that has changed by less than a twentieth and 50 µs has not changed.
_SAME_RATIO = 0.05
_SAME_S = 0.000_05
# Coordinates of clients and hubs that have not settled are off by less than so many times, as a rule.
_DOUBT_FACTOR = 4.0
# What is said holds for six reports of those that there are every 5 s; of a client that says it less often, for three.
HOLDS_S = 30.0
_REPORTS = 3


class Delays(NamedTuple):
    """One way between this hub and some clients, half of each measured round trip, at quantiles of the clients."""

    measured: int = 0
    delay_us_p50: int = 0
    delay_us_p90: int = 0
    delay_us_p99: int = 0
    delay_us_max: int = 0

    @classmethod
    def of(cls, legs_s: Sequence[float]) -> Delays:
        """Rounded up, in value and in rank."""
        count = len(legs_s)
        if not count:
            return _NOT_MEASURED
        ordered = sorted(legs_s)
        ranks = [-(-count * percent // 100) - 1 for percent in _PERCENTS]
        return cls(count, *(math.ceil(1e6 * ordered[rank]) for rank in ranks))


_PERCENTS = (50, 90, 99, 100)
_NOT_MEASURED = Delays()


class Side(NamedTuple):
    """The telemetry's columns of one side of a topic."""

    at: bytes
    located: int
    deviation_us: int
    leg_us_max: int
    delays: Delays = _NOT_MEASURED


class Place:
    """One client's coordinate, and one way between it and this hub where that was measured, in seconds.

    Compared by identity: as long as a client is where it was, its place is the same object.
    """

    __slots__ = ("_hub", "_side", "coordinate", "is_reported", "leg_s", "reported_at", "until")

    def __init__(
        self, coordinate: Coordinate, leg_s: float | None = None, *, is_reported: bool = True
    ) -> None:
        self.coordinate = coordinate
        self.leg_s = leg_s
        # Whether the client says so itself.
        self.is_reported = is_reported
        # When it was last said, and until when that holds.
        self.reported_at = self.until = 0.0
        # What `alone` has made, and for which place of the hub.
        self._hub: Coordinate | None = None
        self._side: Side | None = None

    def leg_from_s(self, hub: Coordinate) -> float:
        """One way between the client and this hub, which is at `hub`."""
        return self.coordinate.distance_s(hub) / 2 if self.leg_s is None else self.leg_s

    def alone(self, hub: Coordinate) -> Side:
        """The side of a topic that has this client only, as most have: made once for all of the client's topics."""
        if self._side is None or self._hub is not hub:
            leg_us = math.ceil(1e6 * self.leg_from_s(hub))
            delays = Delays.of(() if self.leg_s is None else (self.leg_s,))
            self._hub, self._side = hub, Side(self.coordinate.to_bytes(), 1, 0, leg_us, delays)
        return self._side

    def is_plausible(self, hub: Coordinate, rtt_s: float, slack_s: float) -> bool:
        """Whether a client can be there whose round trip to the hub is this, give or take.

        Only too far is too much to believe: nearer is what the kernel finds where connections end in between.
        """
        far_s = max(self.coordinate.distance_s(hub), 2 * (self.leg_s or 0.0))
        return far_s <= _DOUBT_FACTOR * rtt_s + slack_s

    def said(self, now: float, former: Place | None) -> None:
        """The client has said so just now, and that it was at `former` before, if anything."""
        interval_s = 0.0 if former is None else now - former.reported_at
        self.reported_at, self.until = now, now + max(HOLDS_S, _REPORTS * interval_s)

    def is_as(self, other: Place) -> bool:
        """Whether the difference is not worth a word."""
        if self.coordinate != other.coordinate or (self.leg_s is None) != (other.leg_s is None):
            return False
        return _is_same(self.leg_s or 0.0, other.leg_s or 0.0)


class RoundTripReading:
    """What the kernel said of a client's connection, and the place that follows from it."""

    __slots__ = ("_hub", "_place", "rtt_s", "until")

    def __init__(self) -> None:
        self.rtt_s: float | None = None
        # When it is time to ask again.
        self.until = float("-inf")
        self._hub: Coordinate | None = None
        self._place: Place | None = None

    def take(self, rtt_s: float | None, until: float) -> None:
        self.until = until
        if rtt_s is None or self.rtt_s is None or not _is_same(rtt_s / 2, self.rtt_s / 2):
            self.rtt_s, self._hub, self._place = rtt_s, None, None

    def place(self, hub: Coordinate, settings: CoordinateSettings) -> Place | None:
        """Seen from the hub's present place; made anew only when that has changed."""
        if self._hub is not hub and self.rtt_s is not None:
            self._hub, self._place = hub, behind(hub, self.rtt_s, settings)
        return self._place


def behind(hub: Coordinate, rtt_s: float, settings: CoordinateSettings) -> Place:
    """The place of a client of which only the round trip to the hub is known."""
    return Place(replace(hub.behind(rtt_s), error=settings.error_max), rtt_s / 2, is_reported=False)


def _is_same(one_s: float, other_s: float) -> bool:
    return abs(one_s - other_s) <= _SAME_S + _SAME_RATIO * other_s
