"""A simulated hub whose work takes time: a client within its share does not wait for one that is over it."""

from __future__ import annotations

import asyncio

import pytest

from equipoise.hub import Hub, HubSettings
from equipoise.hub.data.shares import Shares
from equipoise.lab.simulation import CpuSpec, Simulation
from equipoise.lab.simulation.host import Host
from equipoise.lab.simulation.simulated_hub import HostProcess
from equipoise.resp.replies import spell

PORT = 6399
# A message to ten subscribers takes the hub some 200 µs.
COST = CpuSpec(written_byte_s=0.5e-6)
MESSAGE = spell((b"PUBLISH", b"flooded", b"x"))
AT_ONCE = 200


async def serve(host: Host, hubs: list[Hub]) -> None:
    settings = HubSettings(name="h", host="hub", port=PORT, insecure=True)
    hubs.append(Hub(settings, wall_clock=host.clock.time, rng=host.random, process=HostProcess(host)))
    await hubs[0].start()


async def subscribe(host: Host, received: list[int]) -> None:
    reader, writer = await asyncio.open_connection("hub", PORT)
    writer.write(spell((b"SUBSCRIBE", b"flooded")))
    while data := await reader.read(65_536):
        received[0] += data.count(b"\r\nx\r\n")


async def flood(batches: int) -> None:
    """Each batch is 40 ms of work."""
    reader, writer = await asyncio.open_connection("hub", PORT)
    for _ in range(batches):
        writer.write(MESSAGE * AT_ONCE)
        replies = b""
        while replies.count(b"\n") < AT_ONCE:
            replies += await reader.read(65_536)
    writer.close()


async def ping(waited_s: list[float]) -> None:
    loop = asyncio.get_running_loop()
    reader, writer = await asyncio.open_connection("hub", PORT)
    while True:
        asked_at = loop.time()
        writer.write(b"PING\r\n")
        await reader.readline()
        waited_s.append(loop.time() - asked_at)
        await asyncio.sleep(0.005)


def longest_wait_s() -> float:
    """The 95th percentile of a client's waits while another client floods the hub for two seconds."""
    waited_s: list[float] = []
    received = [0]

    async def main(sim: Simulation) -> None:
        hubs: list[Hub] = []
        hub = sim.host("hub", cpu=COST)
        hub.spawn(serve(hub, hubs))
        await asyncio.sleep(0.1)
        for number in range(10):
            subscriber = sim.host(f"subscriber{number}")
            subscriber.spawn(subscribe(subscriber, received))
        await asyncio.sleep(0.1)
        modest = sim.host("modest")
        modest.spawn(ping(waited_s))
        flooder = sim.host("flooder")
        await flooder.spawn(flood(50))
        await asyncio.sleep(1.0)
        assert not hubs[0].core.turns.shares.limited

    with Simulation(seed=1, time_s_max=100.0) as sim:
        sim.run(main(sim))
    assert received[0] == 10 * 50 * AT_ONCE
    return sorted(waited_s)[len(waited_s) * 95 // 100]


def test_a_client_within_its_share_does_not_wait_for_a_flood(monkeypatch: pytest.MonkeyPatch) -> None:
    assert longest_wait_s() < 0.004
    monkeypatch.setattr(Shares, "note", lambda self, owner, used_s: 0)
    assert longest_wait_s() > 0.02
