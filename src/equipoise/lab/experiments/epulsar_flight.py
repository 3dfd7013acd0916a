"""Swarms of drones over a city with edge sites (ePulsar 5.8.1): who flies where, and what the network is like there.

The city is a square with cell towers; a zone is what is nearest to one of their k-means, and has an edge site with a
hub and a gateway. A swarm flies from one random point to the next without a rest. All its drones use the gateway of the
zone below; when that changes, their ways to all hubs do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import hypot

import numpy as np
from numpy.typing import NDArray

from equipoise.lab.experiments.epulsar_worlds import CLOUD_MS, LOCAL_MS, SITES_MS, zone_centres
from equipoise.lab.simulation.link import LinkSpec
from equipoise.lab.simulation.topology import Matrix

__all__ = ["CLOUD", "City", "Flight", "air", "site"]

Floats = NDArray[np.float64]

CLOUD = "cloud"
LAN_S = 0.000_25


def site(zone: int) -> str:
    """The place of a zone's hub."""
    return f"site-{zone}"


def air(zone: int) -> str:
    """The place of whoever is behind a zone's gateway."""
    return f"air-{zone}"


@dataclass(frozen=True, slots=True, kw_only=True)
class City:
    """A square city, its zones and its network."""

    zones: int = 4
    # Neither its size nor that of the paper's is told: this one takes a swarm five minutes to cross.
    side_m: float = 15_000.0
    speed_m_per_s: float = 50.0
    seed: int = 1

    @property
    def centres_m(self) -> Floats:
        return self.side_m * zone_centres(self.zones, self.seed)

    @property
    def hubs(self) -> dict[str, str]:
        """One at each site, and one in the cloud."""
        return {**{f"hub-{zone}": site(zone) for zone in range(self.zones)}, "hub-cloud": CLOUD}

    def network(self, spec: LinkSpec | None = None) -> Matrix:
        """One way between all places: half of the paper's round trips."""
        ways: dict[tuple[str, str], float] = {}

        def put(one: str, other: str, rtt_ms: float) -> None:
            ways[one, other] = ways[other, one] = LAN_S + rtt_ms / 2_000

        for zone in range(self.zones):
            put(site(zone), CLOUD, CLOUD_MS)
            put(air(zone), CLOUD, CLOUD_MS + LOCAL_MS)
            for other in range(self.zones):
                put(air(zone), site(other), LOCAL_MS + (SITES_MS if other != zone else 0.0))
                put(air(zone), air(other), 2 * LOCAL_MS + (SITES_MS if other != zone else 0.0))
                if other != zone:
                    put(site(zone), site(other), SITES_MS)
        return Matrix(ways, between=spec or LinkSpec())


class Flight:
    """One swarm's way: random waypoints at a constant speed."""

    def __init__(self, city: City, draw: Callable[[], float]) -> None:
        self._city, self._draw = city, draw
        self._centres = city.centres_m
        self.at = self._anywhere()
        self._to = self._anywhere()

    @property
    def zone(self) -> int:
        """Whose site is nearest."""
        return int(((self._centres - np.array(self.at)) ** 2).sum(axis=1).argmin())

    def advance(self, seconds: float) -> int:
        """Fly on; the zone it is in then."""
        left_m = seconds * self._city.speed_m_per_s
        while left_m > 0:
            ahead = (self._to[0] - self.at[0], self._to[1] - self.at[1])
            length_m = hypot(*ahead)
            if length_m <= left_m:
                self.at, self._to = self._to, self._anywhere()
                left_m -= length_m
            else:
                share = left_m / length_m
                self.at = (self.at[0] + share * ahead[0], self.at[1] + share * ahead[1])
                left_m = 0.0
        return self.zone

    def _anywhere(self) -> tuple[float, float]:
        side_m = self._city.side_m
        return side_m * self._draw(), side_m * self._draw()
