"""The latencies between clients and the cloud, and the costs of a hub's work, compared with arithmetic."""

from __future__ import annotations

import asyncio
import statistics
from math import exp

import pytest

from equipoise.lab.simulation import LinkSpec, Simulation
from equipoise.lab.simulation.cpu import MEASURED, measured_cpu
from equipoise.lab.simulation.legs import CLOUD, Legs


class Echo(asyncio.Protocol):
    """Sends back what it gets."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.transport.write(data)


class Listener(asyncio.Protocol):
    """Notes when each piece came."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.at: list[float] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.at.append(self.loop.time())


def test_legs_have_the_median_and_the_mean_that_are_stated() -> None:
    legs = Legs(seed=3)
    drawn = [legs.leg_s(f"player-{number}") for number in range(20_000)]
    assert statistics.median(drawn) == pytest.approx(0.030, rel=0.03)
    assert statistics.fmean(drawn) == pytest.approx(0.030 * exp(0.6**2 / 2), rel=0.03)
    assert 2 * statistics.fmean(drawn) == pytest.approx(0.072, rel=0.03)


def test_a_client_keeps_its_leg_and_another_seed_gives_it_another() -> None:
    assert Legs(seed=1).leg_s("a") == Legs(seed=1).leg_s("a")
    assert Legs(seed=1).leg_s("a") != Legs(seed=2).leg_s("a")


def test_servers_are_on_a_lan_and_clients_a_leg_away() -> None:
    legs = Legs(within=LinkSpec(latency_s=0.0002), leg=LinkSpec(window_bytes=99_999))
    assert legs.link(CLOUD, CLOUD).latency_s == 0.0002
    up = legs.link("a", CLOUD)
    down = legs.link(CLOUD, "a")
    assert up.latency_s == down.latency_s == legs.leg_s("a")
    assert (up.gather_s, down.gather_s) == (0.0, 0.010)
    assert up.window_bytes == 99_999
    assert legs.link("a", "b").latency_s == pytest.approx(legs.leg_s("a") + legs.leg_s("b"))


def test_an_echo_takes_two_legs_and_the_work_of_receiving_and_writing_it() -> None:
    async def main(sim: Simulation) -> float:
        loop = asyncio.get_running_loop()
        server = sim.host("server", place=CLOUD, cpu=measured_cpu(0.01))

        async def serve() -> None:
            await asyncio.get_running_loop().create_server(Echo, "0.0.0.0", 7)

        async def ask() -> float:
            _, listener = await loop.create_connection(lambda: Listener(loop), "server", 7)
            await asyncio.sleep(1)
            began = loop.time()
            listener.transport.write(b"x" * 100)
            await asyncio.sleep(1)
            return listener.at[0] - began

        await server.spawn(serve())
        return await sim.host("client").spawn(ask())

    legs = Legs(seed=1, gather_s=0.0)
    work_s = MEASURED.received_chunk_s + MEASURED.written_chunk_s + 100 * 2 * MEASURED.written_byte_s
    with Simulation(seed=1, topology=legs) as sim:
        assert sim.run(main(sim)) == pytest.approx(2 * legs.leg_s("client") + work_s / 0.01, rel=1e-6)


def test_measured_costs_add_up_to_what_was_measured() -> None:
    """Fan-out 1, singly: 23.1 µs for a publish of 100 B, its reply and its delivery of 144 B; 25.9 µs with 1 kB."""

    def cost_us(payload_bytes: int) -> float:
        received = MEASURED.received_chunk_s + payload_bytes * MEASURED.received_byte_s
        written = MEASURED.written_chunk_s + (payload_bytes + 44) * MEASURED.written_byte_s
        reply = MEASURED.written_chunk_s + 4 * MEASURED.written_byte_s
        return 1e6 * (received + written + reply)

    assert cost_us(100) == pytest.approx(23.1, rel=0.02)
    assert cost_us(1_000) == pytest.approx(25.9, rel=0.02)


def test_a_server_with_a_bandwidth_sends_no_faster_and_queues_the_rest() -> None:
    rate, size, count = 1_000_000.0, 10_000, 50

    async def main(sim: Simulation) -> list[float]:
        server = sim.host("server", place=CLOUD, nic_out_bytes_per_s=rate)

        class Burst(asyncio.Protocol):
            def connection_made(self, transport: asyncio.BaseTransport) -> None:
                assert isinstance(transport, asyncio.Transport)
                for _ in range(count):
                    transport.write(b"x" * size)

        async def serve() -> None:
            await asyncio.get_running_loop().create_server(Burst, "0.0.0.0", 7)

        async def listen() -> list[float]:
            loop = asyncio.get_running_loop()
            _, listener = await loop.create_connection(lambda: Listener(loop), "server", 7)
            await asyncio.sleep(5)
            return listener.at

        await server.spawn(serve())
        return await sim.host("client").spawn(listen())

    with Simulation(seed=1, topology=Legs(seed=1, gather_s=0.0)) as sim:
        at = sim.run(main(sim))
    first_to_last_s = at[-1] - at[0]
    first_bytes = rate * 0.005
    assert first_to_last_s == pytest.approx((count * size - first_bytes) / rate, rel=0.01)


def test_data_between_two_reads_of_a_client_arrives_in_one_piece_and_in_order() -> None:
    sent = [b"%03d" % number for number in range(100)]

    async def main(sim: Simulation) -> list[tuple[float, bytes]]:
        loop = asyncio.get_running_loop()
        taken: list[tuple[float, bytes]] = []

        class Taking(asyncio.Protocol):
            def data_received(self, data: bytes) -> None:
                taken.append((loop.time(), data))

        class Dripping(asyncio.Protocol):
            def connection_made(self, transport: asyncio.BaseTransport) -> None:
                assert isinstance(transport, asyncio.Transport)
                for number, piece in enumerate(sent):
                    loop.call_later(0.001 * number, transport.write, piece)

        async def serve() -> None:
            await loop.create_server(Dripping, "0.0.0.0", 7)

        async def listen() -> None:
            await loop.create_connection(Taking, "server", 7)
            await asyncio.sleep(5)

        await sim.host("server", place=CLOUD).spawn(serve())
        await sim.host("client").spawn(listen())
        return taken

    with Simulation(seed=1, topology=Legs(seed=1, gather_s=0.010)) as sim:
        taken = sim.run(main(sim))
    assert b"".join(data for _, data in taken) == b"".join(sent)
    assert len(taken) in (10, 11)
    for at, _ in taken:
        assert at / 0.010 == pytest.approx(round(at / 0.010))
