"""A plain client on a simulated network gets a coordinate at its true distance from its hub."""

from __future__ import annotations

import asyncio

import pytest

from equipoise.coordinates import Coordinate, CoordinateSettings
from equipoise.lab.simulation import Simulation
from equipoise.lab.simulation.simulated_hub import PORT
from equipoise.lab.simulation.topology import Sites
from equipoise.telemetry.arrow import END, batch, schema_message
from simulation.cluster.sited import SitedHubs
from telemetry.records import read_stream

MS = 1e-3
SETTINGS = CoordinateSettings()
TOPOLOGY = Sites({("a", "b"): 30 * MS, ("a", "edge"): 24 * MS, ("b", "edge"): 50 * MS})


async def listen(hub: str) -> None:
    reader, writer = await asyncio.open_connection(hub, PORT)
    writer.write(b"SUBSCRIBE t\r\n")
    while await reader.read(1 << 16):
        pass


async def talk(hub: str) -> None:
    reader, writer = await asyncio.open_connection(hub, PORT)
    while True:
        writer.write(b"PUBLISH t x\r\n")
        await reader.read(1 << 16)
        await asyncio.sleep(0.2)


def test_a_relay_records_the_distance_of_the_home_as_measured_over_the_links() -> None:
    with Simulation(topology=TOPOLOGY) as sim:
        world = SitedHubs(sim, TOPOLOGY, {"h1": "a", "h2": "b"})

        async def main() -> dict[str, dict[str, object]]:
            await world.start()
            await asyncio.sleep(10)
            for hub, place in (("h1", "a"), ("h2", "b")):
                sim.host(f"listener-{hub}", place=place).spawn(listen(hub), name=f"listener-{hub}")
            sim.host("near", place="a").spawn(talk("h1"), name="near")
            await asyncio.sleep(15)
            return {hub: last_record(world, hub) for hub in ("h1", "h2")}

        records = sim.run(main())
        (home,) = [hub for hub, record in records.items() if record["role"] == "home"]
        (relay,) = set(records) - {home}
        assert records[home]["home_delay_us"] is None
        assert records[relay]["home_delay_us"] == pytest.approx(15_000, rel=0.02)
        assert records[relay]["subscribers_delay_us_p99"] == 250


def last_record(world: SitedHubs, hub: str) -> dict[str, object]:
    core = world.hubs[hub].core
    blocks = [block.part(at, block.count) for block, at in core.metering.ring.read(0)]
    names = core.metering.ring.filled
    stream = schema_message(names) + batch(hub, core.incarnation, blocks, names) + END
    return [record for record in read_stream(stream) if record["topic"] == b"t"][-1]


def test_plain_clients_count_with_the_round_trips_that_they_have() -> None:
    with Simulation(topology=TOPOLOGY) as sim:
        world = SitedHubs(sim, TOPOLOGY, {"h1": "a", "h2": "b"})

        async def main() -> dict[str, object]:
            await world.start()
            await asyncio.sleep(60)
            sim.host("far", place="edge").spawn(listen("h1"), name="far")
            sim.host("near", place="a").spawn(talk("h1"), name="near")
            await asyncio.sleep(10)
            return last_record(world, "h1")

        record = sim.run(main())
        assert (record["subscribers_located"], record["publishers_located"]) == (1, 1)
        assert record["subscribers_leg_us_max"] == 12_000
        assert record["publishers_leg_us_max"] == 250
        data = record["subscribers_at"]
        assert isinstance(data, bytes)
        far = Coordinate.from_bytes(data, SETTINGS)
        # 50 ms by the straight way; a plain client does not go there, its messages take the way by its hub.
        assert far.distance_s(world.told("h2")) == pytest.approx(24 * MS + 30 * MS, abs=1 * MS)
