"""Light clients find and report their coordinates as the real client does, or use a gateway object."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from client.where_hubs import PORT, WhereHub, place, sites, triangle
from equipoise.client.url import Endpoint
from equipoise.coordinates import Coordinate, FinderSettings
from equipoise.lab.experiments.meter import Meter
from equipoise.lab.simulation import Simulation
from equipoise.lab.simulation.light_client.client import LightClient

Story = Callable[[Simulation, list[WhereHub], LightClient], Awaitable[None]]


@dataclass
class PlanBasis:
    coordinate: Coordinate | None


def play(story: Story, finding: FinderSettings | None) -> None:
    """A light client 6 ms from hub a, and 34 ms from the others."""
    with Simulation(seed=1, topology=sites(a=6, b=34, c=34)) as sim:
        hubs = triangle(sim)
        host = sim.host("m", place="client")

        async def live() -> None:
            await asyncio.sleep(0.1)
            entries = [Endpoint(hub.name, PORT) for hub in hubs]
            client = LightClient(entries, Meter(), lambda topic, payload: None, host.random, finding)
            client.subscribe(b"t")
            await story(sim, hubs, client)
            client.close()

        async def main() -> None:
            await host.spawn(live())

        sim.run(main())


def used(hubs: list[WhereHub]) -> WhereHub:
    (one,) = [hub for hub in hubs if any(session.count(b"EQ.SUBSCRIBE") for session in hub.sessions)]
    return one


def distances_ms(client: LightClient, hubs: list[WhereHub]) -> list[float]:
    at = client.coordinate
    assert at is not None
    return [1_000 * at.distance_s(hub.coordinate) for hub in hubs if hub.coordinate is not None]


def test_a_light_client_knows_how_far_the_hubs_are_and_tells_the_one_it_uses() -> None:
    async def story(sim: Simulation, hubs: list[WhereHub], client: LightClient) -> None:
        await asyncio.sleep(30.0)
        found = distances_ms(client, hubs)
        assert all(abs(ms - true) < 2.5 for ms, true in zip(found, (6, 34, 34), strict=True))
        hub = used(hubs)
        assert hub.told[-1][2] == client.coordinate
        await asyncio.sleep(60.0)
        count = len(hub.told)
        await asyncio.sleep(60.0)
        assert 11 <= len(hub.told) - count <= 14

    play(story, FinderSettings())


def test_a_client_reports_a_new_gateway_within_a_round_trip() -> None:
    async def story(sim: Simulation, hubs: list[WhereHub], client: LightClient) -> None:
        # Before its first probe.
        await asyncio.sleep(0.9)
        hub = used(hubs)
        first, second = PlanBasis(place(10, 0)), PlanBasis(place(0, 50))
        for gateway, access_s in ((first, 0.004), (second, 0.006), (first, 0.005)):
            client.use_gateway(gateway, access_s)
            began_at = sim.now
            await asyncio.sleep(0.1)
            at, rtt_us, told = hub.told[-1]
            assert gateway.coordinate is not None
            assert told == gateway.coordinate.behind(access_s) and rtt_us == 0
            assert at - began_at <= 0.035
        # Nothing was measured on the way but what reports took.
        assert sum(len(other.words) for other in hubs) == len(hub.told)

    play(story, FinderSettings())


def test_a_gateway_that_has_moved_is_noticed_with_the_next_report() -> None:
    async def story(sim: Simulation, hubs: list[WhereHub], client: LightClient) -> None:
        gateway = PlanBasis(place(10, 0))
        client.use_gateway(gateway, 0.004)
        await asyncio.sleep(12.0)
        gateway.coordinate = place(20, 0)
        await asyncio.sleep(10.5)
        assert used(hubs).told[-1][2] == place(20, 0).behind(0.004)

    play(story, FinderSettings())


def test_a_light_client_without_settings_neither_probes_nor_reports() -> None:
    async def story(sim: Simulation, hubs: list[WhereHub], client: LightClient) -> None:
        await asyncio.sleep(60.0)
        assert client.coordinate is None
        assert all(hub.words == [] for hub in hubs)

    play(story, None)
