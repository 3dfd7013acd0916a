"""Where one client is, as far as the hub knows.

A smart client tells its coordinate and the round trip that it measured. Of a plain one the kernel knows the round trip
and nobody the direction: it is placed behind this hub, by that much higher. Seen from any other hub it is then as far
as by way of this one: never less than it is, by the triangle inequality, and just what its messages take when their
topic lives there, since a plain client stays where it is connected and this hub relays.

Not taken: so high that the coordinate's distance to this hub is the round trip. Where hubs have heights themselves,
others would look nearer than they can be. How far the client is from this hub is told apart from that, as measured.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from equipoise.coordinates import Coordinate, CoordinateSettings

__all__ = ["Place", "Reading", "behind"]


class Place(NamedTuple):
    """One client's coordinate, and one way between it and this hub where that was measured, in seconds."""

    coordinate: Coordinate
    leg_s: float | None = None

    def leg_from_s(self, hub: Coordinate) -> float:
        """One way between the client and this hub, which is at `hub`."""
        return self.coordinate.distance_s(hub) / 2 if self.leg_s is None else self.leg_s


class Reading:
    """What the kernel said of a client's connection, and the place that follows from it."""

    __slots__ = ("_hub", "_place", "rtt_s", "until")

    def __init__(self, rtt_s: float | None, until: float) -> None:
        self.rtt_s = rtt_s
        # When it is time to ask again.
        self.until = until
        self._hub: Coordinate | None = None
        self._place: Place | None = None

    def place(self, hub: Coordinate, settings: CoordinateSettings) -> Place | None:
        """Seen from the hub's present place; made anew only when that has changed."""
        if self._hub is not hub and self.rtt_s is not None:
            self._hub, self._place = hub, behind(hub, self.rtt_s, settings)
        return self._place


def behind(hub: Coordinate, rtt_s: float, settings: CoordinateSettings) -> Place:
    """The place of a client of which only the round trip to the hub is known."""
    return Place(replace(hub.behind(rtt_s), error=settings.error_max), rtt_s / 2)
