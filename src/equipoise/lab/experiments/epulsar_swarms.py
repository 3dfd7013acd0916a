"""Swarms over a city; all parts are real except network and drones (ePulsar 5.8.1).

Hubs and gateways find their coordinates; drones use and report their gateway's coordinate. Hubs record telemetry, the
controller reads it, plans and commits, and hubs hand over topics. A drone publishes a steady stream: the leader to its
followers, the followers to their leader.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Protocol

import numpy as np

from equipoise.client.url import Endpoint
from equipoise.coordinates import FinderSettings
from equipoise.lab.experiments.cloud_region import CloudRegion, Command
from equipoise.lab.experiments.epulsar_worlds import SWARM_LIMIT_MS, City, Flight, air
from equipoise.lab.experiments.experiment import Progress, silent
from equipoise.lab.experiments.meter import Latencies, Meter
from equipoise.lab.simulation import Simulation
from equipoise.lab.simulation.cluster.controller import LiveViews
from equipoise.lab.simulation.host import Host
from equipoise.lab.simulation.light_client.client import LightClient
from equipoise.lab.simulation.link import LinkSpec
from equipoise.model import TopicSpec
from equipoise.plan import PlannerSettings
from equipoise.plan.planner import Planner

__all__ = [
    "Change",
    "Crew",
    "Drone",
    "Mission",
    "Patrol",
    "fly",
    "gather",
    "limit_s",
    "planner_of",
    "topics_of",
    "unheard",
]

# Header of a message: its sending time and the number of its sender.
STAMP = b"%016.6f%04d"
STAMP_BYTES, TIME_BYTES = 20, 16
# A swarm has recovered when it stays within the limit for this long.
STAYS_S = 3
# Time limit for the recovery after a change of zones.
RECOVERY_S_MAX = 15.0
DRAIN_S = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Mission:
    """One run."""

    city: City = field(default_factory=City)
    swarms: int = 8
    drones: int = 8
    # Rate of each drone.
    messages_per_s: float = 200.0
    payload_bytes: int = 1_000
    seconds: int = 600
    # Time for hubs and gateways to find their coordinates, and for topics to move to their first homes.
    settle_s: float = 120.0
    begin_s: float = 45.0
    # None: topics stay where the ring puts them.
    is_planned: bool = True
    link: LinkSpec = field(default_factory=LinkSpec)
    seed: int = 1


@dataclass(frozen=True, slots=True)
class Change:
    """A swarm entered another zone; `at_s` counts from the beginning."""

    at_s: float
    swarm: int
    zone: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Patrol:
    """The outcome of a mission."""

    mission: Mission
    latencies: Latencies
    meter: Meter
    changes: tuple[Change, ...]
    # Times of plan commits, with the number of topics moved.
    moves: tuple[tuple[float, int], ...]

    def recoveries_s(self) -> dict[Change, float]:
        """By change, the seconds until the swarm was within the limit again; inf: it was not.

        A change is left out if the swarm changed zones again, or the run ended, before the recovery and within the
        time limit.
        """
        found: dict[Change, float] = {}
        for at, change in enumerate(self.changes):
            later = (other.at_s for other in self.changes[at + 1 :] if other.swarm == change.swarm)
            end_s = min(next(later, float("inf")), float(self.mission.seconds))
            after_s = self._under_after_s(change, int(end_s))
            if after_s is not None:
                found[change] = after_s
            elif end_s - change.at_s > RECOVERY_S_MAX:
                found[change] = float("inf")
        return found

    def _under_after_s(self, change: Change, end_s: int) -> float | None:
        worst_s = self.latencies.worst_s(*topics_of(change.swarm))
        # A second without deliveries does not count as within the limit.
        with np.errstate(invalid="ignore"):
            is_under = worst_s <= limit_s()
        first = int(change.at_s)
        for second in range(first, end_s):
            if is_under[second : second + STAYS_S].all():
                return float(second - first)
        return None


def limit_s() -> float:
    """One-way limit: the paper's limits are for sums of round trips."""
    return SWARM_LIMIT_MS / 2_000


def topics_of(swarm: int) -> tuple[bytes, bytes]:
    return b"swarm/%d/follow_leader" % swarm, b"swarm/%d/sensor_data" % swarm


def planner_of(hubs: int) -> Planner:
    """A planner that keeps all hubs at any load, because hubs are needed for their places."""
    return Planner(PlannerSettings(servers_min=hubs, servers_max=hubs))


class Speaker(Protocol):
    """A client that publishes and receives."""

    said: bytes
    heard: dict[bytes, bytes]


class Drone:
    """One light client behind a gateway."""

    def __init__(self, host: Host, number: int, topics: tuple[bytes, bytes], crew: Crew) -> None:
        """`topics`: the topic that it publishes to, and the topic that it subscribes to."""
        self.host, self.number = host, number
        self._out, self._in = topics
        mission = crew.mission
        self._interval_s = 1 / mission.messages_per_s
        self._padding = bytes(mission.payload_bytes - STAMP_BYTES)
        self._crew = crew
        self._timer: asyncio.TimerHandle | None = None
        # The header of its last message, and of the last message received from each other drone.
        self.said = b""
        self.heard: dict[bytes, bytes] = {}

    async def begin(self, entries: Sequence[Endpoint], gateway: LightClient) -> None:
        self._loop = asyncio.get_running_loop()
        self._client = LightClient(
            entries, self._crew.meter, self._hear, self.host.random, FinderSettings(visit_s=0.0)
        )
        self._client.use_gateway(gateway)
        self._timer = self._loop.call_later(self.host.random.random() * self._interval_s, self._talk)
        self._client.subscribe(self._in)

    async def cross(self, gateway: LightClient) -> None:
        """Enter another zone."""
        self._client.use_gateway(gateway)

    async def fall_silent(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _talk(self) -> None:
        self.said = STAMP % (self._loop.time(), self.number)
        self._client.publish(self._out, self.said + self._padding)
        self._timer = self._loop.call_later(self._interval_s, self._talk)

    def _hear(self, topic: bytes, payload: bytes) -> None:
        self.heard[payload[TIME_BYTES:STAMP_BYTES]] = payload[:STAMP_BYTES]
        self._crew.hear(self, topic, payload, self._loop.time())


class Crew:
    """All drones, the gateways, and the measurements."""

    def __init__(self, sim: Simulation, mission: Mission, region: CloudRegion) -> None:
        self._sim, self.mission, self._region = sim, mission, region
        self.meter = Meter()
        # None before the measurement.
        self.latencies: Latencies | None = None
        self.changes: list[Change] = []
        self.gateways: list[LightClient] = []
        rng = Random(f"flights {mission.seed}")
        self._flights = [Flight(mission.city, rng.random) for _ in range(mission.swarms)]
        self.zones = [flight.zone for flight in self._flights]
        self._network = mission.city.network(mission.link)
        self._swarms = [
            [self._drone(swarm, number) for number in range(mission.drones)]
            for swarm in range(mission.swarms)
        ]

    def _drone(self, swarm: int, number: int) -> Drone:
        host = self._sim.host(f"drone-{swarm}-{number}", place=air(self.zones[swarm]))
        leader, sensors = topics_of(swarm)
        topics = (leader, sensors) if number == 0 else (sensors, leader)
        return Drone(host, swarm * self.mission.drones + number, topics, self)

    async def open_gateways(self) -> None:
        """Start a gateway in each zone, which finds its coordinate by probing hubs."""
        for zone in range(self.mission.city.zones):
            host = self._sim.host(f"gateway-{zone}", place=air(zone))
            self.gateways.append(await host.spawn(self._gateway(host), name="gateway"))

    async def _gateway(self, host: Host) -> LightClient:
        # The gateway has no topics, so it learns its coordinate only from visits.
        settings = FinderSettings(visit_s=5.0, visit_s_first=1.0)
        client = LightClient(self._region.endpoints, Meter(), _ignore, host.random, settings)
        # Without a gateway the client starts to visit hubs.
        client.use_gateway(None)
        return client

    def take_off(self) -> None:
        for zone, drones in zip(self.zones, self._swarms, strict=True):
            for drone in drones:
                begin = drone.begin(self._region.endpoints, self.gateways[zone])
                drone.host.spawn(begin, name="fly")

    @property
    def drones(self) -> list[Drone]:
        return [drone for drones in self._swarms for drone in drones]

    def hear(self, drone: Drone, topic: bytes, payload: bytes, now: float) -> None:
        """A drone received a message."""
        if self.latencies is not None:
            self.latencies.note(topic, now, now - float(payload[:TIME_BYTES]))

    def advance(self, at_s: float) -> None:
        """Advance all swarms by a second."""
        for swarm, flight in enumerate(self._flights):
            zone = flight.advance(1.0)
            if zone != self.zones[swarm]:
                self.cross(swarm, zone, at_s)

    def cross(self, swarm: int, zone: int, at_s: float) -> None:
        """Move a swarm to another zone."""
        self.zones[swarm] = zone
        self.changes.append(Change(at_s, swarm, zone))
        for drone in self._swarms[swarm]:
            for hub in self._region.hubs.values():
                latency_s = self._network.link(air(zone), hub.site).latency_s
                self._sim.shape(drone.host.name, hub.name, latency_s=latency_s)
                self._sim.shape(hub.name, drone.host.name, latency_s=latency_s)
            drone.host.spawn(drone.cross(self.gateways[zone]), name="cross")

    @property
    def unheard(self) -> int:
        """Number of missing last messages, over drones and their subscribers."""
        pairs = [(drones[0], drones[1:]) for drones in self._swarms]
        pairs += [(drone, drones[:1]) for drones in self._swarms for drone in drones[1:]]
        return sum(unheard(drone, others) for drone, others in pairs)

    def land(self) -> None:
        for drone in self.drones:
            drone.host.spawn(drone.fall_silent(), name="land")


def unheard(speaker: Speaker, listeners: Iterable[Speaker]) -> int:
    """Number of clients without the speaker's last message. Positions account for all earlier messages."""
    return sum(one.heard.get(speaker.said[TIME_BYTES:]) != speaker.said for one in listeners)


def fly(mission: Mission, progress: Progress = silent, views: LiveViews | None = None) -> Patrol:
    """Run a mission in a new simulation; `views` makes the controller's views."""
    network = mission.city.network(mission.link)
    with Simulation(seed=mission.seed, topology=network, steps_max=10**11) as sim:
        return sim.run(_fly(sim, mission, progress, views))


async def gather(
    sim: Simulation, mission: Mission, make: type[Crew] | None = None, views: LiveViews | None = None
) -> tuple[CloudRegion, Crew]:
    """Start the world: hubs and gateways find their coordinates, drones publish, and topics move to their homes."""
    city = mission.city
    region = CloudRegion(sim, Command(hubs=city.hubs, cloud=city.hubs["hub-cloud"]))
    await region.begin(specs=[TopicSpec(pattern=b"swarm/*", latency_ms=1e3 * limit_s())])
    crew = (make or Crew)(sim, mission, region)
    await crew.open_gateways()
    await asyncio.sleep(mission.settle_s)
    crew.take_off()
    if mission.is_planned:
        region.control(planner_of(len(city.hubs)), views=views)
    await asyncio.sleep(mission.begin_s)
    crew.latencies = Latencies(mission.seconds, sim.now)
    return region, crew


async def _fly(sim: Simulation, mission: Mission, progress: Progress, views: LiveViews | None) -> Patrol:
    region, crew = await gather(sim, mission, views=views)
    assert crew.latencies is not None, "the measurement has started"
    began = crew.latencies.began_at
    for second in range(mission.seconds):
        await asyncio.sleep(began + second + 1 - sim.now)
        crew.advance(second + 1.0)
        progress(f"{second + 1} s, {len(crew.changes)} changes of zones", (second + 1) / mission.seconds)
    crew.land()
    await asyncio.sleep(DRAIN_S)
    crew.meter.unanswered = crew.unheard
    return Patrol(
        mission=mission,
        latencies=crew.latencies,
        meter=crew.meter,
        changes=tuple(crew.changes),
        moves=tuple((at - began, count) for at, count in region.moves if count and at >= began),
    )


def _ignore(topic: bytes, payload: bytes) -> None:
    """A gateway receives no messages."""
