"""The two worlds of ePulsar's evaluation (5.1): game servers in cities, and drones over a city with edge sites.

A world has nodes with true round trips between them; some are hubs, and each client is at one of the other nodes. A
placement is one draw of the places and subscriptions of clients.

The paper's data are not available. Distances of cities are great circles times a factor; cell towers of a city are
drawn, dense in the middle, and zones are their k-means, as in the paper.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import hypot

import numpy as np
from numpy.typing import NDArray

from equipoise.lab.simulation.cities import distance_km
from equipoise.lab.simulation.link import LinkSpec
from equipoise.lab.simulation.topology import Matrix

__all__ = [
    "CLOUD",
    "City",
    "Flight",
    "PlacedClients",
    "PlacementWorld",
    "air",
    "city_rtt_s",
    "game_world",
    "k_means",
    "site",
    "swarm_world",
    "zone_centres",
]

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

# The largest cities first, from coast to coast; the controller is in the first one.
US_CITIES = (
    *("new-york", "los-angeles", "chicago", "dallas", "seattle", "miami", "atlanta", "san-francisco"),
    *(
        "denver",
        "washington",
        "boston",
        "phoenix",
        "houston",
        "minneapolis",
        "philadelphia",
        "salt-lake-city",
    ),
)
# Speed of light in fibre, and the extra length of cables and routers over the great circle: the round trip New York to
# Los Angeles then takes 69 ms.
FIBRE_KM_PER_MS = 200.0
STRETCH = 1.75
LOCAL_MS = 5.0

PLAYERS, GROUPS, GAME_LIMIT_MS = 1_024, 128, 100.0
SWARMS, DRONES, SWARM_LIMIT_MS = 16, 8, 40.0
SITES_MS, CLOUD_MS = 30.0, 80.0
TOWERS = 600


@dataclass(frozen=True)
class PlacedClients:
    """One draw. Publishers and subscribers are nodes, with a row for each topic, padded with -1."""

    topics: tuple[bytes, ...]
    publishers: Indices
    subscribers: Indices


@dataclass(frozen=True)
class PlacementWorld:
    """A network, and a function that places clients in it."""

    name: str
    # The varied number: cities or zones.
    size: int
    # Round trips of all nodes.
    rtt_s: Floats
    # The nodes that are hubs.
    hubs: Indices
    limit_ms: float
    draw: Callable[[np.random.Generator], PlacedClients]


def game_world(cities: int) -> PlacementWorld:
    """A world with a hub in each city and a game server 5 ms away from it."""
    rtt_s = city_rtt_s(US_CITIES[:cities])
    servers = np.arange(cities, 2 * cities)

    def draw(random: np.random.Generator) -> PlacedClients:
        return _play(random, servers)

    return PlacementWorld("game", cities, rtt_s, np.arange(cities), GAME_LIMIT_MS, draw)


def city_rtt_s(names: Sequence[str]) -> Floats:
    """The round trips of a hub in each city and of a client near each of them, in this order."""
    between = np.array([[distance_km(one, other) for other in names] for one in names])
    between_ms = 2 * between * STRETCH / FIBRE_KM_PER_MS
    access_ms = np.repeat([0.0, LOCAL_MS], len(names))
    rtt_ms: Floats = np.tile(between_ms, (2, 2)) + access_ms[:, None] + access_ms[None, :]
    np.fill_diagonal(rtt_ms, 0.0)
    return rtt_ms / 1_000


def _play(random: np.random.Generator, servers: Indices) -> PlacedClients:
    """Players in cities and groups with equal chances. A player's topic goes to the servers of its group's others."""
    at = servers[random.integers(0, len(servers), PLAYERS)]
    group = random.integers(0, GROUPS, PLAYERS)
    members = [np.flatnonzero(group == one) for one in range(GROUPS)]
    rows = [(player, mates[mates != player]) for mates in members for player in mates.tolist()]
    rows = [(player, mates) for player, mates in rows if len(mates)]
    widest = max(len(mates) for _, mates in rows)
    subscribers = np.full((len(rows), widest), -1, np.int64)
    for row, (_, mates) in enumerate(rows):
        subscribers[row, : len(mates)] = at[mates]
    publishers = np.array([[at[player]] for player, _ in rows], np.int64)
    return PlacedClients(tuple(b"avatar/%d" % player for player, _ in rows), publishers, subscribers)


def swarm_world(zones: int, seed: int) -> PlacementWorld:
    """A world with a hub in each zone and a gateway 5 ms away from it; zones are 30 ms apart; a hub in the cloud."""
    nodes = 2 * zones + 1
    cloud = nodes - 1
    zone = np.concatenate([np.arange(zones), np.arange(zones), [-1]])
    access_ms = np.concatenate([np.zeros(zones), np.full(zones, LOCAL_MS), [0.0]])
    rtt_ms = np.where(zone[:, None] == zone[None, :], 0.0, SITES_MS) + access_ms[:, None] + access_ms[None, :]
    rtt_ms[cloud, :] = rtt_ms[:, cloud] = CLOUD_MS + access_ms
    np.fill_diagonal(rtt_ms, 0.0)
    centres = zone_centres(zones, seed)

    def draw(random: np.random.Generator) -> PlacedClients:
        return _fly(random, centres)

    return PlacementWorld(
        "swarm", zones, rtt_ms / 1_000, np.concatenate([np.arange(zones), [cloud]]), SWARM_LIMIT_MS, draw
    )


def zone_centres(zones: int, seed: int) -> Floats:
    """The edge sites of a city of 1 by 1."""
    towers = _towers(np.random.default_rng(seed))
    return k_means(towers, zones, np.random.default_rng(seed))


def _fly(random: np.random.Generator, centres: Floats) -> PlacedClients:
    """Swarms anywhere in the city, each in one zone, whose gateway all its drones use."""
    at = random.random((SWARMS, 2))
    zone = ((at[:, None, :] - centres[None, :, :]) ** 2).sum(axis=2).argmin(axis=1)
    gateway = len(centres) + zone
    names, publishers, subscribers = [], [], []
    for swarm, node in enumerate(gateway.tolist()):
        one, others = [node] + [-1] * (DRONES - 2), [node] * (DRONES - 1)
        names += [b"swarm/%d/follow_leader" % swarm, b"swarm/%d/sensor_data" % swarm]
        publishers += [one, others]
        subscribers += [others, one]
    return PlacedClients(tuple(names), np.array(publishers, np.int64), np.array(subscribers, np.int64))


def _towers(random: np.random.Generator) -> Floats:
    """Towers of a city of 1 by 1: half of them in the middle, the rest anywhere."""
    middle = np.clip(random.normal(0.5, 0.12, (TOWERS // 2, 2)), 0, 1)
    return np.concatenate([middle, random.random((TOWERS - TOWERS // 2, 2))])


def k_means(points: Floats, count: int, random: np.random.Generator, rounds: int = 50) -> Floats:
    """Lloyd's algorithm from points drawn at random."""
    centres = points[random.choice(len(points), count, replace=False)]
    for _ in range(rounds):
        nearest = ((points[:, None, :] - centres[None, :, :]) ** 2).sum(axis=2).argmin(axis=1)
        moved = np.array(
            [
                points[nearest == one].mean(axis=0) if (nearest == one).any() else centres[one]
                for one in range(count)
            ]
        )
        if np.allclose(moved, centres):
            break
        centres = moved
    return centres


CLOUD = "cloud"
LAN_S = 0.000_25


def site(zone: int) -> str:
    """The place of a zone's hub."""
    return f"site-{zone}"


def air(zone: int) -> str:
    """The place of the clients behind a zone's gateway."""
    return f"air-{zone}"


@dataclass(frozen=True, slots=True, kw_only=True)
class City:
    """A square city, its zones and its network."""

    zones: int = 4
    # The paper does not state the size of its city: a swarm crosses this one in five minutes.
    side_m: float = 15_000.0
    speed_m_per_s: float = 50.0
    seed: int = 1

    @property
    def centres_m(self) -> Floats:
        return self.side_m * zone_centres(self.zones, self.seed)

    @property
    def hubs(self) -> dict[str, str]:
        """A hub at each site, and one in the cloud."""
        return {**{f"hub-{zone}": site(zone) for zone in range(self.zones)}, "hub-cloud": CLOUD}

    def network(self, spec: LinkSpec | None = None) -> Matrix:
        """One-way latencies between all places: half of the paper's round trips."""
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
    """One swarm's path: random waypoints at a constant speed."""

    def __init__(self, city: City, draw: Callable[[], float]) -> None:
        self._city, self._draw = city, draw
        self._centres = city.centres_m
        self.at = self._anywhere()
        self._to = self._anywhere()

    @property
    def zone(self) -> int:
        """The zone of the nearest site."""
        return int(((self._centres - np.array(self.at)) ** 2).sum(axis=1).argmin())

    def advance(self, seconds: float) -> int:
        """Advance by this time. Returns the zone that the swarm is then in."""
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
