"""Fleets and clients in small, for the tests of this folder."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from equipoise.lab.experiments.meter import Meter
from equipoise.lab.simulation import Simulation
from equipoise.lab.simulation.cluster.fleet import Fleet, Machine
from equipoise.lab.simulation.legs import Legs
from equipoise.lab.simulation.light_client.client import LightClient

T = TypeVar("T")


class SmallWorld:
    """A fleet and some light clients; `run` plays a coroutine in it."""

    def __init__(self, sim: Simulation, hubs: int, machine: Machine | None = None) -> None:
        self.sim = sim
        self.meter = Meter()
        self.fleet = Fleet(sim, machine or Machine(), [f"hub-{number}" for number in range(1, hubs + 1)])

    async def begin(self, *names: str) -> None:
        await self.fleet.begin(*(names or self.fleet.hubs))

    async def client(self, name: str, receive: Callable[[bytes, bytes], None]) -> LightClient:
        """A client on a host of its own. Calls on it have to be made there: see `on`."""
        host = self.sim.host(name)

        async def make() -> LightClient:
            return LightClient(self.fleet.endpoints, self.meter, receive, host.random)

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
    machine: Machine | None = None,
) -> T:
    with Simulation(seed=seed, topology=Legs(seed=seed)) as sim:
        return sim.run(story(SmallWorld(sim, hubs, machine)))
