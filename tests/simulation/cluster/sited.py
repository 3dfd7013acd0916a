"""Real hubs at places of a simulated network, all alive and introduced to each other, with nothing else to do."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from itertools import combinations

from equipoise.coordinates import Coordinate
from equipoise.hub import Hub, HubSettings
from equipoise.hub.cluster import LiveHub, Routing
from equipoise.hub.locations.probes import Probing
from equipoise.hub.locations.settings import CoordinatesSettings, TcpRttFor
from equipoise.lab.simulation import Simulation
from equipoise.lab.simulation.topology import Topology
from equipoise.model import Member, Plan

PORT = 6399


class SitedHubs:
    """One run. `where`: by hub, the place of its host."""

    def __init__(
        self,
        sim: Simulation,
        topology: Topology,
        where: Mapping[str, str],
        settings: CoordinatesSettings | None = None,
    ) -> None:
        self.sim = sim
        self.topology = topology
        self.where = dict(where)
        self.hubs: dict[str, Hub] = {}
        self.alive: dict[str, LiveHub] = {}
        self._settings = settings or CoordinatesSettings(tcp_rtt_for=TcpRttFor.ALL)
        self._plan = Plan(version=1, members=tuple(Member(name) for name in sorted(where)))
        for name, place in where.items():
            sim.host(name, place=place)

    async def start(self, *names: str) -> None:
        """These, or all; and tell everybody."""
        starting = names or tuple(self.where)
        for name in starting:
            host = self.sim.host(name)
            if not host.is_up:
                host.restart()
            host.spawn(self._serve(name), name="hub")
        async with asyncio.timeout(10):
            while not set(starting) <= set(self.hubs):  # noqa: ASYNC110  # hubs run on hosts of their own
                await asyncio.sleep(0.01)
        self.tell()

    def crash(self, name: str) -> None:
        """Everybody learns of it at once."""
        del self.hubs[name], self.alive[name]
        self.sim.host(name).crash(silent=False)
        self.tell()

    def tell(self) -> None:
        routing = Routing(self._plan, dict(self.alive))
        for name in self.hubs:
            self.sim.host(name).spawn(self._apply(name, routing), name="routing")

    async def _serve(self, name: str) -> None:
        host = self.sim.host(name)
        settings = HubSettings(
            name=name, host="0.0.0.0", port=PORT, insecure=True, coordinates=self._settings
        )
        hub = Hub(settings, wall_clock=host.clock.time, rng=host.random)
        await hub.start()
        hub.join_cluster()
        self.alive[name] = LiveHub(hub.core.incarnation, name, PORT)
        self.hubs[name] = hub

    async def _apply(self, name: str, routing: Routing) -> None:
        cluster = self.hubs[name].cluster
        assert cluster is not None
        cluster.apply(routing)

    def probing(self, name: str) -> Probing:
        return self.hubs[name].core.places.probing

    def told(self, name: str) -> Coordinate:
        """Where the hub says it is."""
        own = self.hubs[name].core.places.own
        assert own is not None, f"{name} does not know where it is"
        return own

    def rtt_s(self, one: str, other: str) -> float:
        """The truth."""
        places = self.where[one], self.where[other]
        return self.topology.link(*places).latency_s + self.topology.link(*reversed(places)).latency_s

    def errors_s(self, is_meant: Callable[[str, str], bool] = lambda one, other: True) -> list[float]:
        """Of all pairs that are meant: how far the distance told is from the round trip."""
        return [
            self.told(one).distance_s(self.told(other)) - self.rtt_s(one, other)
            for one, other in combinations(sorted(self.hubs), 2)
            if is_meant(one, other)
        ]

    def ratios(self) -> list[float]:
        """The same as shares of the round trips, those between places only."""
        return [
            abs(self.told(one).distance_s(self.told(other)) / self.rtt_s(one, other) - 1)
            for one, other in combinations(sorted(self.hubs), 2)
            if self.where[one] != self.where[other]
        ]
