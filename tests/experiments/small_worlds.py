"""Regions and clients in small, for the tests of this folder."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from equipoise.lab.experiments.cloud_region import CloudRegion, Command
from equipoise.lab.experiments.meter import Meter
from equipoise.lab.simulation import CpuSpec, Simulation
from equipoise.lab.simulation.legs import CLOUD, Legs
from equipoise.lab.simulation.light_client.client import LightClient

T = TypeVar("T")


class SmallWorld:
    """A region and some light clients; `play` plays a coroutine in it."""

    def __init__(
        self, sim: Simulation, hubs: int, cpu: CpuSpec | None = None, out_bytes_per_s: float | None = None
    ) -> None:
        self.sim = sim
        self.meter = Meter()
        places = dict.fromkeys([f"hub-{number}" for number in range(1, hubs + 1)], CLOUD)
        command = Command(hubs=places, cloud=CLOUD, cpu=cpu, out_bytes_per_s=out_bytes_per_s)
        self.region = CloudRegion(sim, command)

    async def begin(self) -> None:
        await self.region.begin()

    async def client(self, name: str, receive: Callable[[bytes, bytes], None]) -> LightClient:
        """A client on a host of its own. Calls on it have to be made there: see `on`."""
        host = self.sim.host(name)

        async def make() -> LightClient:
            return LightClient(self.region.endpoints, self.meter, receive, host.random)

        return await host.spawn(make())

    async def on(self, name: str, function: Callable[..., T], *args: Any) -> T:
        """Call something on a client's host."""

        async def call() -> T:
            return function(*args)

        return await self.sim.host(name).spawn(call())


def play(
    story: Callable[[SmallWorld], Coroutine[Any, Any, T]],
    *,
    hubs: int = 3,
    seed: int = 1,
    cpu: CpuSpec | None = None,
    out_bytes_per_s: float | None = None,
) -> T:
    with Simulation(seed=seed, topology=Legs(seed=seed)) as sim:
        return sim.run(story(SmallWorld(sim, hubs, cpu, out_bytes_per_s)))
