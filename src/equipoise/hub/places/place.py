"""Where one client is, as far as the hub knows.

A smart client tells its coordinate and the round trip that it measured. Of a plain one the kernel knows the round trip
and nobody the direction: it is taken to sit above the hub's own point, so high that its distance to the hub is that
round trip. Seen from any other hub it is then as far as the way by this hub: an upper bound.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from equipoise.coordinates import Coordinate, CoordinateSettings

__all__ = ["Place", "above"]


class Place(NamedTuple):
    """One client's coordinate, and one way between it and this hub where that was measured, in seconds."""

    coordinate: Coordinate
    leg_s: float | None = None

    def leg_from_s(self, hub: Coordinate) -> float:
        """One way between the client and this hub, which is at `hub`."""
        return self.coordinate.distance_s(hub) / 2 if self.leg_s is None else self.leg_s


def above(hub: Coordinate, rtt_s: float, settings: CoordinateSettings) -> Place:
    """The place of a client of which only the round trip to the hub is known."""
    height_s = max(settings.height_s_min, rtt_s - hub.height_s - hub.adjustment_s)
    coordinate = replace(hub, error=settings.error_max, height_s=height_s, adjustment_s=0.0)
    return Place(coordinate, rtt_s / 2)
