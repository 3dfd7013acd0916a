"""Real hubs at sites of a simulated network, alive and connected to each other, without load."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from itertools import combinations

from equipoise.coordinates import Coordinate
from equipoise.hub import Hub, HubSettings
from equipoise.hub.locations.probes import LocationProbes
from equipoise.hub.locations.settings import CoordinatesSettings, TcpRttFor
from equipoise.lab.simulation import Simulation
from equipoise.lab.simulation.cluster.directory import Directory
from equipoise.lab.simulation.simulated_hub import PORT
from equipoise.lab.simulation.topology import Topology
from equipoise.model import Member, Plan


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
        self.directory = Directory(sim, lambda: 0.0, lag_s=0.0)
        self.directory.plan = Plan(members=tuple(Member(name) for name in sorted(where)))
        coordinates = settings or CoordinatesSettings(tcp_rtt_for=TcpRttFor.ALL)
        for name, place in where.items():
            sim.host(name, place=place)
            self.directory.add(
                HubSettings(name=name, host="0.0.0.0", port=PORT, insecure=True, coordinates=coordinates)
            )

    @property
    def hubs(self) -> dict[str, Hub]:
        """The serving hubs."""
        return {name: node.hub for name, node in self.directory.hubs.items() if node.hub is not None}

    async def start(self, *names: str) -> None:
        """These, or all; every hub learns of them."""
        starting = names or tuple(self.where)
        for name in starting:
            self.directory.hubs[name].start()
        async with asyncio.timeout(10):
            while not set(starting) <= self.directory.alive.keys():  # noqa: ASYNC110  # hosts of their own
                await asyncio.sleep(0.01)
        # A hub serves under plans that are younger than it.
        self.directory.commit(self.directory.plan)

    def crash(self, name: str) -> None:
        """Every hub learns of it at once."""
        self.directory.hubs[name].crash(silent=False)
        self.directory.expire(name)

    def probing(self, name: str) -> LocationProbes:
        return self.hubs[name].core.places.probing

    def told(self, name: str) -> Coordinate:
        """The hub's reported coordinate."""
        own = self.hubs[name].core.places.own
        assert own is not None, f"{name} does not know where it is"
        return own

    def rtt_s(self, one: str, other: str) -> float:
        """The truth."""
        places = self.where[one], self.where[other]
        return self.topology.link(*places).latency_s + self.topology.link(*reversed(places)).latency_s

    def errors_s(self, is_meant: Callable[[str, str], bool] = lambda one, other: True) -> list[float]:
        """For these pairs: the difference between the reported distance and the round trip."""
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
