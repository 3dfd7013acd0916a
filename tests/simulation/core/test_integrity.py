"""Every byte arrives once and in order under any delay, and all counters agree."""

from __future__ import annotations

import asyncio

import pytest

from equipoise.lab.simulation import CpuSpec, Host, Lan, LinkSpec, Simulation
from equipoise.lab.simulation.transport import SimulatedTransport
from simulation.core.parts import Sink, join


async def _send(sim: Simulation, end: Sink, sent: bytearray) -> None:
    for _ in range(60):
        size = int(sim.random.random() ** 3 * 60_000) + 1
        data = bytes([int(sim.random.random() * 256)]) * size
        sent += data
        end.transport.write(data)
        await asyncio.sleep(0.05 * sim.random.random())


async def _delay(sim: Simulation, hosts: list[Host], ends: list[Sink]) -> None:
    """Do everything that delays and nothing that breaks; leave the world whole."""
    a, b = hosts
    for _ in range(30):
        await asyncio.sleep(0.1 * sim.random.random())
        what = int(sim.random.random() * 5)
        if what == 0:
            await sim.flap(a.name, b.name, times=1, down_s=0.1, up_s=0.01)
        elif what == 1:
            sim.cut(b.name, a.name, one_way=True)
            await asyncio.sleep(0.1)
            sim.heal(b.name, a.name, one_way=True)
        elif what == 2:
            a.pause()
            await asyncio.sleep(0.1)
            a.thaw()
        elif what == 3:
            ends[0].transport.pause_reading()
            await asyncio.sleep(0.1)
            ends[0].transport.resume_reading()
        else:
            rate = None if sim.random.random() < 0.5 else 1e5 + 1e6 * sim.random.random()
            sim.shape(a.name, b.name, bandwidth_bytes_per_s=rate, jitter_s=0.01 * sim.random.random())


@pytest.mark.parametrize("seed", range(24))
def test_delays_neither_lose_nor_reorder_nor_repeat(seed: int) -> None:
    async def main(sim: Simulation) -> None:
        cpu = CpuSpec(received_chunk_s=0.001, written_byte_s=1e-8) if seed % 3 == 0 else None
        nic = 5e6 if seed % 2 else None
        hosts = [sim.host("a", cpu=cpu, nic_in_bytes_per_s=nic), sim.host("b", nic_out_bytes_per_s=nic)]
        near, far = await join(hosts[0], hosts[1])
        sent = [bytearray(), bytearray()]
        tasks = [hosts[0].spawn(_send(sim, near, sent[0])), hosts[1].spawn(_send(sim, far, sent[1]))]
        await _delay(sim, hosts, [near, far])
        await asyncio.gather(*tasks)
        await asyncio.sleep(120)
        assert far.data == sent[0]
        assert near.data == sent[1]
        for end in (near, far):
            transport = end.transport
            assert isinstance(transport, SimulatedTransport)
            assert transport.in_flight == transport.unacknowledged == transport.undelivered == 0
            assert not transport.arriving
            assert transport.get_write_buffer_size() == 0
            assert not end.is_writing_paused
            assert end.lost_at is None

    spec = LinkSpec(latency_s=0.002, jitter_s=0.005, loss=0.02, window_bytes=50_000, queue_bytes_max=60_000)
    with Simulation(seed, topology=Lan(spec), split=0.2, shuffle=seed % 4 == 1) as sim:
        sim.run(main(sim))
