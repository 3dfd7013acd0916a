"""Swarms under faults: a site cut off, lossy links, a controller that dies during a move.

Whatever happens, every drone hears every message once and each publisher's in order; and soon after it is over, all
swarms are under their limits again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import numpy as np

from equipoise.lab.experiments.cloud_region import CONTROLLER, CloudRegion
from equipoise.lab.experiments.epulsar_swarms import (
    TIME_BYTES,
    Crew,
    Drone,
    Mission,
    gather,
    limit_s,
    planner_of,
    topics_of,
)
from equipoise.lab.experiments.epulsar_worlds import City, site
from equipoise.lab.simulation import Simulation
from equipoise.lab.simulation.cluster.region import STORE

CITY = City(zones=2)
MISSION = Mission(city=CITY, swarms=2, drones=3, messages_per_s=5.0, seconds=120, settle_s=40.0, begin_s=25.0)
BACK_S = 30


class Witness(Crew):
    """Remembers what each drone heard last of each other, and what it should not have heard then."""

    def __init__(self, sim: Simulation, mission: Mission, region: CloudRegion) -> None:
        super().__init__(sim, mission, region)
        self.heard: dict[tuple[int, bytes, bytes], float] = {}
        self.wrong: list[str] = []

    def hear(self, drone: Drone, topic: bytes, payload: bytes, now: float) -> None:
        super().hear(drone, topic, payload, now)
        who, sent_at = (
            (drone.number, topic, payload[TIME_BYTES : TIME_BYTES + 4]),
            float(payload[:TIME_BYTES]),
        )
        if sent_at <= self.heard.get(who, 0.0):
            self.wrong.append(f"{who} heard the message of {sent_at} after that of {self.heard[who]}")
        self.heard[who] = sent_at


Story = Callable[[Simulation, CloudRegion, Witness], Awaitable[None]]


def run(story: Story) -> Witness:
    """The story, and then time to recover; everything must be well after it."""

    async def main(sim: Simulation) -> Witness:
        region, crew = await gather(sim, MISSION, Witness)
        assert isinstance(crew, Witness)
        await story(sim, region, crew)
        await asyncio.sleep(BACK_S)
        over = int(sim.now - _began(crew))
        await asyncio.sleep(5.0)
        assert crew.latencies is not None
        for swarm in range(MISSION.swarms):
            worst_s = crew.latencies.worst_s(*topics_of(swarm))[over : over + 4]
            assert not np.isnan(worst_s).any(), f"swarm {swarm} hears nothing"
            assert (worst_s <= limit_s()).all(), f"swarm {swarm} is above its limit: {worst_s}"
        assert crew.wrong == []
        return crew

    with Simulation(seed=1, topology=CITY.network(), steps_max=10**10) as sim:
        return sim.run(main(sim))


def _began(crew: Crew) -> float:
    assert crew.latencies is not None
    return crew.latencies.began_at


def test_a_site_that_is_cut_off_from_all_others_keeps_its_swarm_and_comes_back() -> None:
    async def story(sim: Simulation, region: CloudRegion, crew: Witness) -> None:
        here = [hub.name for hub in region.hubs.values() if hub.site == site(crew.zones[0])]
        others = [name for name in (*region.hubs, STORE, CONTROLLER) if name not in here]
        pairs = [(one, other) for one in here for other in others]
        for one, other in pairs:
            sim.cut(one, other)
        # Longer than a session with the store lasts: the others declare the site's hubs dead.
        await asyncio.sleep(20.0)
        for one, other in pairs:
            sim.heal(one, other)

    run(story)


def test_lossy_links_delay_messages_and_lose_none() -> None:
    async def story(sim: Simulation, region: CloudRegion, crew: Witness) -> None:
        hosts = [drone.host.name for drone in crew.drones]
        ways = [(one, other) for one in hosts for other in region.hubs]
        ways += [(other, one) for one, other in ways]
        for one, other in ways:
            sim.shape(one, other, loss=0.03)
        await asyncio.sleep(5.0)
        crew.cross(0, 1 - crew.zones[0], sim.now - _began(crew))
        await asyncio.sleep(20.0)
        for one, other in ways:
            sim.shape(one, other, loss=0.0)

    crew = run(story)
    assert crew.meter.lost == 0


def test_a_move_ends_without_the_controller_that_began_it_and_another_one_makes_the_next() -> None:
    async def story(sim: Simulation, region: CloudRegion, crew: Witness) -> None:
        region.control(planner_of(len(CITY.hubs)), "standby")
        await asyncio.sleep(5.0)
        moves = len(region.moves)
        crew.cross(0, 1 - crew.zones[0], sim.now - _began(crew))
        assert await region.sim.until(lambda: len(region.moves) > moves, 15.0)
        # The plan is in the store, and has not reached the sites, which are 40 ms away.
        sim.host(CONTROLLER).crash(silent=True)
        await asyncio.sleep(20.0)
        moves = len(region.moves)
        crew.cross(1, 1 - crew.zones[1], sim.now - _began(crew))
        assert await region.sim.until(lambda: len(region.moves) > moves, 30.0)

    crew = run(story)
    assert crew.meter.lost == 0
