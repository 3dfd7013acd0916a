"""Inject the faults of a scenario; the seed determines times and clients.

Every fault ends after its duration. `heal` ends the remaining faults and starts no new ones.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any

from equipoise.lab.scenarios import Fault, FaultKind, Scenario
from equipoise.lab.simulation.simulated_hub import PORT, SimulatedHub
from equipoise.lab.simulation.world import Simulation
from equipoise.lab.workload import Driven
from equipoise.lab.workload.hostile import attack

__all__ = ["HUB", "STRANGER", "Faults"]

HUB = "hub"
STRANGER = "stranger"
SLOW_BYTES_PER_S = 20_000.0
# A clock step with a duration of 0.1 to 0.5 s moves the clock by up to minutes.
CLOCK_STEP_FACTOR = 1000.0


class Faults:
    """Owned by the run of one seed."""

    def __init__(self, sim: Simulation, scenario: Scenario, hub: SimulatedHub, clients: list[Driven]) -> None:
        self._sim = sim
        self._scenario = scenario
        self._hub = hub
        self._clients = clients
        self._random = sim.random
        self._tasks: list[asyncio.Task[None]] = []
        # Number of injected faults of each kind.
        self.fired: Counter[str] = Counter()
        self._acts: dict[FaultKind, Callable[[Fault, float], Coroutine[Any, Any, None]]] = {
            FaultKind.RESET: self._reset,
            FaultKind.CUT: self._cut,
            FaultKind.CUT_ONE_WAY: self._cut_one_way,
            FaultKind.FLAP: self._flap,
            FaultKind.SLOW_LINK: self._slow_link,
            FaultKind.HUB_PAUSE: self._pause_hub,
            FaultKind.CLIENT_PAUSE: self._pause_client,
            FaultKind.HUB_CRASH: self._crash_hub,
            FaultKind.HUB_POWER_CUT: self._cut_power,
            FaultKind.STALL: self._stall,
            FaultKind.CLOCK_STEP: self._step_clock,
            FaultKind.RULES: self._change_rules,
            FaultKind.HOSTILE: self._attack,
        }

    def begin(self) -> None:
        """Draw the faults and their times, and schedule them."""
        loop, random = self._sim.loop, self._random
        for fault in self._scenario.faults:
            low, high = fault.times
            for _ in range(low + int(random.random() * (high - low + 1))):
                delay_s = random.random() * self._scenario.duration_s
                shortest, longest = fault.lasts_s
                lasts_s = shortest + random.random() * (longest - shortest)
                self._tasks.append(loop.create_task(self._act(fault, delay_s, lasts_s)))

    def heal(self) -> None:
        """End all faults."""
        for task in self._tasks:
            task.cancel()
        sim = self._sim
        for client in self._clients:
            client.resume()
            sim.heal(HUB, client.name)
            sim.shape(HUB, client.name, bandwidth_bytes_per_s=None)
            sim.host(client.name).thaw()
        self._hub.host.thaw()
        if self._hub.hub is None and not self._hub.host.is_up:
            self._hub.start()
        if self._scenario.access is not None:
            self._hub.change_rules(self._scenario.access.rules)

    async def _act(self, fault: Fault, delay_s: float, lasts_s: float) -> None:
        await asyncio.sleep(delay_s)
        await self._acts[fault.kind](fault, lasts_s)

    def _draw_client(self, fault: Fault) -> Driven:
        among = [c for c in self._clients if not fault.clients or c.name in fault.clients]
        return among[int(self._random.random() * len(among))]

    # One method for each kind.

    async def _reset(self, fault: Fault, lasts_s: float) -> None:
        if self._sim.reset_connections(HUB, self._draw_client(fault).name):
            self.fired[fault.kind.value] += 1

    async def _cut(self, fault: Fault, lasts_s: float) -> None:
        name = self._draw_client(fault).name
        self.fired[fault.kind.value] += 1
        self._sim.cut(HUB, name)
        await asyncio.sleep(lasts_s)
        self._sim.heal(HUB, name)

    async def _cut_one_way(self, fault: Fault, lasts_s: float) -> None:
        ends = [HUB, self._draw_client(fault).name]
        if self._random.random() < 0.5:
            ends.reverse()
        self.fired[fault.kind.value] += 1
        self._sim.cut(*ends, one_way=True)
        await asyncio.sleep(lasts_s)
        self._sim.heal(*ends, one_way=True)

    async def _flap(self, fault: Fault, lasts_s: float) -> None:
        name = self._draw_client(fault).name
        self.fired[fault.kind.value] += 1
        await self._sim.flap(HUB, name, times=4, down_s=lasts_s / 8, up_s=lasts_s / 8)

    async def _slow_link(self, fault: Fault, lasts_s: float) -> None:
        name = self._draw_client(fault).name
        self.fired[fault.kind.value] += 1
        self._sim.shape(HUB, name, bandwidth_bytes_per_s=SLOW_BYTES_PER_S)
        await asyncio.sleep(lasts_s)
        self._sim.shape(HUB, name, bandwidth_bytes_per_s=None)

    async def _pause_hub(self, fault: Fault, lasts_s: float) -> None:
        host = self._hub.host
        if host.is_up:
            self.fired[fault.kind.value] += 1
            host.pause()
            await asyncio.sleep(lasts_s)
            host.thaw()

    async def _pause_client(self, fault: Fault, lasts_s: float) -> None:
        host = self._sim.host(self._draw_client(fault).name)
        self.fired[fault.kind.value] += 1
        host.pause()
        await asyncio.sleep(lasts_s)
        host.thaw()

    async def _crash_hub(self, fault: Fault, lasts_s: float, *, silent: bool = False) -> None:
        if not self._hub.host.is_up:
            return
        self.fired[fault.kind.value] += 1
        self._hub.crash(silent=silent)
        await asyncio.sleep(lasts_s)
        self._hub.start()

    async def _cut_power(self, fault: Fault, lasts_s: float) -> None:
        await self._crash_hub(fault, lasts_s, silent=True)

    async def _stall(self, fault: Fault, lasts_s: float) -> None:
        client = self._draw_client(fault)
        self.fired[fault.kind.value] += 1
        client.stall()
        await asyncio.sleep(lasts_s)
        client.resume()

    async def _step_clock(self, fault: Fault, lasts_s: float) -> None:
        self.fired[fault.kind.value] += 1
        self._hub.host.step_clock((self._random.random() - 0.5) * 2 * lasts_s * CLOCK_STEP_FACTOR)

    async def _change_rules(self, fault: Fault, lasts_s: float) -> None:
        access = self._scenario.access
        assert access is not None, "a rule change needs access rules"
        alternatives = access.alternatives
        self.fired[fault.kind.value] += 1
        self._hub.change_rules(alternatives[int(self._random.random() * len(alternatives))])
        await asyncio.sleep(lasts_s)
        self._hub.change_rules(access.rules)

    async def _attack(self, fault: Fault, lasts_s: float) -> None:
        self.fired[fault.kind.value] += 1
        stranger = self._sim.host(STRANGER)
        stranger.spawn(attack(HUB, PORT, rng=stranger.random, lasts_s=lasts_s), name="attack")
