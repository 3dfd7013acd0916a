"""One hub, its clients and the order of events."""

from __future__ import annotations

import asyncio
from collections import Counter
from functools import cache

from equipoise.hub import HubSettings, Limits
from equipoise.lab.scenarios import Scenario
from equipoise.lab.simulation.faults import HUB, Faults
from equipoise.lab.simulation.memory_use import measure_forever
from equipoise.lab.simulation.simulated_hub import PORT, SimulatedHub, alone
from equipoise.lab.simulation.staging import Staging
from equipoise.lab.simulation.world import Simulation
from equipoise.lab.workload import History, HubEndpoint, hurried

__all__ = ["HubWorld"]

# The run waits this long for all clients to connect.
OPENING_S = 5.0


class HubWorld:
    """The components of one run."""

    def __init__(self, sim: Simulation, scenario: Scenario, history: History) -> None:
        self._sim = sim
        self._scenario = scenario
        self._staging = Staging(sim, history)
        host = sim.host(HUB, place=scenario.topology.hub_place or None)
        rules = scenario.access.rules if scenario.access is not None else None
        self._hub = SimulatedHub(host, settings_of(tuple(scenario.hub_limits.items())), alone, rules=rules)
        if rules is not None:
            history.rules[HUB] = self._hub.rules_at
        self._faults: Faults | None = None

    def fired(self) -> Counter[str]:
        """Number of faults of each kind."""
        return Counter() if self._faults is None else self._faults.fired

    async def play(self) -> None:
        sim, staging, scenario = self._sim, self._staging, self._scenario
        self._hub.start()
        settings = hurried(**scenario.client_settings)
        for client in scenario.workload.each():
            host = sim.host(client.name, place=client.place or None)
            staging.cast(client, HubEndpoint(HUB, PORT, settings, host.random))
        for driven in staging.clients:
            staging.seat(driven)
        measuring = sim.loop.create_task(measure_forever([self._hub], staging.clients, staging.history))
        faults = self._faults = Faults(sim, scenario, self._hub, staging.clients)
        await staging.until(staging.is_everybody_live, OPENING_S)
        faults.begin()
        staging.stage.begin.set()
        await asyncio.sleep(scenario.duration_s)
        faults.heal()
        await staging.conclude(scenario.expectation.progress_s)
        measuring.cancel()
        staging.note_unfinished()


@cache
def settings_of(limits: tuple[tuple[str, int | float], ...]) -> HubSettings:
    """Cached per process and set of limits, because a small run is shorter than their construction."""
    return HubSettings(
        name=HUB,
        host="0.0.0.0",
        port=PORT,
        insecure=True,
        limits=Limits(**dict(limits)),  # type: ignore[arg-type]  # fields by name, some of them int
    )
