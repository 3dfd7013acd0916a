"""The location of one client, as known to its hub.

A smart client reports its coordinate and its measured round trip. For a plain client only the round trip is known, from
the kernel: it is placed at the hub's coordinate with that much more height. Its distance from any other hub is then the
distance through this hub. By the triangle inequality that is never too short; and it is exact for messages of a topic
with that home, because a plain client stays at its hub and the hub relays.

Alternative not taken: a height for which the coordinate's distance to this hub is the round trip. If hubs have heights
themselves, other hubs would appear nearer than possible. The client's measured distance from this hub is kept
separately.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from equipoise.coordinates import Coordinate, CoordinateSettings

__all__ = ["HOLDS_S", "Delays", "Place", "RoundTripReading", "Side", "behind"]

# A change of a leg by less than a twentieth plus 50 µs is ignored.
_SAME_RATIO = 0.05
_SAME_S = 0.000_05
# Coordinates that have not converged usually overestimate distances by less than this factor.
_DOUBT_FACTOR = 4.0
# A report is valid for 30 s, six intervals of 5 s; for a client that reports less often, for three of its intervals.
HOLDS_S = 30.0
_REPORTS = 3


class Delays(NamedTuple):
    """Quantiles of the one-way delay (half the measured round trip) between this hub and some clients."""

    measured: int = 0
    delay_us_p50: int = 0
    delay_us_p90: int = 0
    delay_us_p99: int = 0
    delay_us_max: int = 0

    @classmethod
    def of(cls, legs_s: Sequence[float]) -> Delays:
        """Quantiles of the legs, rounded up in value and in rank."""
        count = len(legs_s)
        if not count:
            return _NOT_MEASURED
        ordered = sorted(legs_s)
        ranks = [-(-count * percent // 100) - 1 for percent in _PERCENTS]
        return cls(count, *(math.ceil(1e6 * ordered[rank]) for rank in ranks))


_PERCENTS = (50, 90, 99, 100)
_NOT_MEASURED = Delays()


class Side(NamedTuple):
    """The telemetry columns of one side of a topic, its publishers or its subscribers."""

    at: bytes
    located: int
    deviation_us: int
    leg_us_max: int
    delays: Delays = _NOT_MEASURED


class Place:
    """One client's coordinate, and its one-way delay to this hub in seconds, if measured.

    Compared by identity: while a client's location does not change, its place is the same object.
    """

    __slots__ = ("_hub", "_side", "coordinate", "is_reported", "leg_s", "reported_at", "until")

    def __init__(
        self, coordinate: Coordinate, leg_s: float | None = None, *, is_reported: bool = True
    ) -> None:
        self.coordinate = coordinate
        self.leg_s = leg_s
        # Whether the client has reported it.
        self.is_reported = is_reported
        # Time of the last report, and the time until which it is valid.
        self.reported_at = self.until = 0.0
        # The cached result of `alone`, and the coordinate of the hub that it was computed for.
        self._hub: Coordinate | None = None
        self._side: Side | None = None

    def leg_from_s(self, hub: Coordinate) -> float:
        """One-way delay between the client and this hub, whose coordinate is `hub`."""
        return self.coordinate.distance_s(hub) / 2 if self.leg_s is None else self.leg_s

    def alone(self, hub: Coordinate) -> Side:
        """The side of a topic with this client only, as for most topics; computed once for all topics of the client."""
        if self._side is None or self._hub is not hub:
            leg_us = math.ceil(1e6 * self.leg_from_s(hub))
            delays = Delays.of(() if self.leg_s is None else (self.leg_s,))
            self._hub, self._side = hub, Side(self.coordinate.to_bytes(), 1, 0, leg_us, delays)
        return self._side

    def is_plausible(self, hub: Coordinate, rtt_s: float, slack_s: float) -> bool:
        """Whether the place is consistent with a round trip to the hub of `rtt_s`.

        Only a place that is too far is implausible: the kernel measures a shorter round trip if a proxy ends the
        connection.
        """
        far_s = max(self.coordinate.distance_s(hub), 2 * (self.leg_s or 0.0))
        return far_s <= _DOUBT_FACTOR * rtt_s + slack_s

    def said(self, now: float, former: Place | None) -> None:
        """The client has just reported this place, after the previous report `former`, if any."""
        interval_s = 0.0 if former is None else now - former.reported_at
        self.reported_at, self.until = now, now + max(HOLDS_S, _REPORTS * interval_s)

    def is_as(self, other: Place) -> bool:
        """Whether the places differ by a negligible amount."""
        if self.coordinate != other.coordinate or (self.leg_s is None) != (other.leg_s is None):
            return False
        return _is_same(self.leg_s or 0.0, other.leg_s or 0.0)


class RoundTripReading:
    """The round trip that the kernel measured for a client's connection, and the resulting place."""

    __slots__ = ("_hub", "_place", "rtt_s", "until")

    def __init__(self) -> None:
        self.rtt_s: float | None = None
        # Time of the next read.
        self.until = float("-inf")
        self._hub: Coordinate | None = None
        self._place: Place | None = None

    def take(self, rtt_s: float | None, until: float) -> None:
        self.until = until
        if rtt_s is None or self.rtt_s is None or not _is_same(rtt_s / 2, self.rtt_s / 2):
            self.rtt_s, self._hub, self._place = rtt_s, None, None

    def place(self, hub: Coordinate, settings: CoordinateSettings) -> Place | None:
        """The place, for the hub's current coordinate; computed again only when that has changed."""
        if self._hub is not hub and self.rtt_s is not None:
            self._hub, self._place = hub, behind(hub, self.rtt_s, settings)
        return self._place


def behind(hub: Coordinate, rtt_s: float, settings: CoordinateSettings) -> Place:
    """The place of a client for which only the round trip to the hub is known."""
    return Place(replace(hub.behind(rtt_s), error=settings.error_max), rtt_s / 2, is_reported=False)


def _is_same(one_s: float, other_s: float) -> bool:
    return abs(one_s - other_s) <= _SAME_S + _SAME_RATIO * other_s
