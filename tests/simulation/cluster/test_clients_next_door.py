"""Real hubs at sites with buses and gateways next to them: which hubs are near clients, and the telemetry of it."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

import equipoise
from equipoise.coordinates import Coordinate, CoordinateSettings
from equipoise.gateway import Gateway, GatewaySettings
from equipoise.lab.simulation import LinkSpec, Simulation
from equipoise.lab.simulation.simulated_hub import PORT
from equipoise.lab.simulation.topology import Matrix
from simulation.cluster.sited import SitedHubs

SITES = 3
# Round trips: between sites, and from a site's hub to clients nearby.
BETWEEN_S, LOCAL_S = 0.030, 0.005
HUBS = [f"hub-{number}" for number in range(SITES)]
URL = "equipoise://" + ",".join(f"{hub}:{PORT}" for hub in HUBS)


def network() -> Matrix:
    """All sites are as far from each other: hubs alone would take themselves to be at the ends of long lines."""
    ways: dict[tuple[str, str], float] = {}
    for one in range(SITES):
        for other in range(SITES):
            far_s = 0.0 if one == other else BETWEEN_S
            for near, nears in (("site", 0), ("door", 1)):
                for end, ends in (("site", 0), ("door", 1)):
                    ways[f"{near}-{one}", f"{end}-{other}"] = (far_s + LOCAL_S * (nears + ends)) / 2
    return Matrix(ways, between=LinkSpec())


@dataclass
class Scene:
    sim: Simulation
    hubs: SitedHubs
    buses: dict[int, equipoise.Bus] = field(default_factory=dict)

    async def use(self, site: int, topic: str, **settings: Any) -> equipoise.Bus:
        """A bus next door to a site's hub that uses a topic, for as long as the run lasts."""
        host = self.sim.host(f"user-{site}", place=f"door-{site}")
        order = ",".join(f"{hub}:{PORT}" for hub in HUBS[site:] + HUBS[:site])

        async def live() -> None:
            url = f"equipoise://{order}"
            async with equipoise.connect(url, rng=host.random, **settings) as bus, bus.subscribe(topic):
                self.buses[site] = bus
                while True:
                    # Of a topic in which nothing happens there are no records.
                    await bus.publish(topic, "x")
                    await asyncio.sleep(0.5)

        host.spawn(live())
        await until(lambda: site in self.buses)
        return self.buses[site]

    def gateway(self, site: int) -> Gateway:
        host = self.sim.host(f"gateway-{site}", place=f"door-{site}")
        gateway = Gateway(URL, GatewaySettings(host="0.0.0.0"), rng=host.random)
        host.spawn(gateway.start())
        return gateway

    def distances_ms(self, at: equipoise.Bus | Gateway) -> list[float]:
        assert at.coordinate is not None
        return [1_000 * at.coordinate.distance_s(self.hubs.told(hub)) for hub in HUBS]

    def knowing(self, topic: bytes) -> list[str]:
        """Hubs whose records have the coordinates of the topic's subscribers."""
        return [
            name
            for name, hub in self.hubs.hubs.items()
            if (found := hub.core.index.topics.get(topic)) is not None
            and found.where is not None
            and found.where.subscribers is not None
        ]


async def until(condition: Callable[[], object], patience_s: float = 60.0) -> None:
    async with asyncio.timeout(patience_s):
        while not condition():  # noqa: ASYNC110  # looks at other hosts
            await asyncio.sleep(0.1)


def play(story: Callable[[Scene], Awaitable[None]], seed: int = 1) -> None:
    topology = network()
    with Simulation(seed=seed, topology=topology) as sim:
        scene = Scene(sim, SitedHubs(sim, topology, {hub: f"site-{hub[4:]}" for hub in HUBS}))

        async def main() -> None:
            await scene.hubs.start()
            await story(scene)

        sim.run(main())


@pytest.mark.parametrize("seed", range(4))
def test_hubs_learn_from_nearby_clients_that_they_have_no_access_line(seed: int) -> None:
    async def story(scene: Scene) -> None:
        for site in range(SITES):
            await scene.use(site, f"topic-{site}")
        await asyncio.sleep(180.0)
        assert all(scene.hubs.probing(hub).is_flat for hub in HUBS)
        for site, bus in scene.buses.items():
            found = scene.distances_ms(bus)
            # 5 and 35 ms are true.
            assert found[site] < 9
            assert all(27 < ms < 42 for other, ms in enumerate(found) if other != site)

    play(story, seed)


def test_hubs_without_nearby_clients_keep_their_height() -> None:
    async def story(scene: Scene) -> None:
        await asyncio.sleep(120.0)
        assert not any(scene.hubs.probing(hub).is_flat for hub in HUBS)
        assert max(scene.hubs.ratios()) < 0.06

    play(story)


@pytest.mark.parametrize("seed", range(4))
def test_gateways_learn_which_hub_they_are_near(seed: int) -> None:
    async def story(scene: Scene) -> None:
        gateways = [scene.gateway(site) for site in range(SITES)]
        await asyncio.sleep(180.0)
        for site, gateway in enumerate(gateways):
            found = scene.distances_ms(gateway)
            assert found[site] < 10
            assert all(26 < ms < 45 for other, ms in enumerate(found) if other != site)

    play(story, seed)


def test_the_hub_of_a_topic_has_the_coordinate_of_its_subscriber_and_its_changes() -> None:
    """1. A bus is behind the gateway of site 0. 2. It goes to that of site 2. 3. The topic's hub knows at once."""

    async def story(scene: Scene) -> None:
        gateways = [scene.gateway(site) for site in range(SITES)]
        await asyncio.sleep(180.0)
        bus = await scene.use(0, "t", coordinate_gateway="gateway-0:6390")
        await until(lambda: scene.knowing(b"t"))
        (home,) = scene.knowing(b"t")
        topic = scene.hubs.hubs[home].core.index.topics[b"t"]
        for site in (2, 0):
            assert await scene.sim.host("user-0").spawn(bus.use_gateway(f"gateway-{site}:6390"))
            told_at = scene.sim.now
            here, gateway = bus.coordinate, gateways[site].coordinate
            assert here is not None and gateway is not None
            assert here.point_s == gateway.point_s

            def is_known(place: Coordinate = gateway) -> bool:
                """Within a third of the way to the next site: gateways go on measuring."""
                side = None if topic.where is None else topic.where.subscribers
                known = None if side is None else Coordinate.from_bytes(side.at, CoordinateSettings())
                return known is not None and math.dist(known.point_s, place.point_s) < BETWEEN_S / 3

            # A window of telemetry is a second, and what is known of a topic is renewed every five.
            await until(is_known, 10.0)
            assert scene.sim.now - told_at < 7

    play(story)
