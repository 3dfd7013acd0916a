"""Arrival times with latency, jitter, bandwidth, loss and windows."""

from __future__ import annotations

import asyncio
import socket
import struct
from itertools import pairwise

import pytest

from equipoise.lab.simulation import Lan, LinkSpec, Simulation
from simulation.core.parts import Sink, dial, join

MB = 1_000_000


def _lan(**fields: float) -> Lan:
    return Lan(LinkSpec(**fields))  # type: ignore[arg-type]  # fields by name


async def _settle(seconds: float = 100) -> None:
    await asyncio.sleep(seconds)


def test_a_byte_takes_one_latency_and_a_connection_three() -> None:
    async def main(sim: Simulation) -> None:
        near, far = await join(sim.host("a"), sim.host("b"))
        assert sim.now == pytest.approx(0.3)
        near.transport.write(b"x")
        await asyncio.sleep(1)
        assert far.times == pytest.approx([0.4])

    with Simulation(topology=_lan(latency_s=0.1)) as sim:
        sim.run(main(sim))


def test_the_caller_is_connected_after_a_round_trip() -> None:
    async def main(sim: Simulation) -> None:
        await join(sim.host("a"), sim.host("b"))
        before = sim.now
        await sim.host("c").spawn(dial("b"))
        assert sim.now - before == pytest.approx(0.2)

    with Simulation(topology=_lan(latency_s=0.1)) as sim:
        sim.run(main(sim))


def test_writes_of_one_turn_travel_as_one_piece() -> None:
    async def main(sim: Simulation) -> None:
        near, far = await join(sim.host("a"), sim.host("b"))
        for byte in b"abc":
            near.transport.write(bytes([byte]))
        await asyncio.sleep(1)
        assert [piece for _, piece in far.pieces] == [b"abc"]

    with Simulation() as sim:
        sim.run(main(sim))


def test_jitter_delays_pieces_and_never_reorders_them() -> None:
    async def main(sim: Simulation) -> None:
        near, far = await join(sim.host("a"), sim.host("b"))
        sent = []
        for number in range(200):
            near.transport.write(bytes([number]))
            sent.append(sim.now)
            await asyncio.sleep(0.01 if number % 2 else 0.2)
        await asyncio.sleep(1)
        assert bytes(far.data) == bytes(range(200))
        assert far.times == sorted(far.times)
        delays = [at - before for at, before in zip(far.times, sent, strict=True)]
        assert min(delays) < 0.015
        assert 0.05 < max(delays) <= 0.11

    with Simulation(topology=_lan(latency_s=0.01, jitter_s=0.1)) as sim:
        sim.run(main(sim))


@pytest.mark.parametrize("latency_s", [0.0, 0.001, 0.02])
def test_five_megabytes_over_one_per_second_take_five_seconds(latency_s: float) -> None:
    async def main(sim: Simulation) -> None:
        near, far = await join(sim.host("a"), sim.host("b"))
        before = sim.now
        near.transport.write(bytes(5 * MB))
        await _settle()
        assert len(far.data) == 5 * MB
        assert 4.999 <= far.times[-1] - before - latency_s <= 5.0 * 1.01

    with Simulation(topology=_lan(latency_s=latency_s, bandwidth_bytes_per_s=MB)) as sim:
        sim.run(main(sim))


@pytest.mark.parametrize("side", ["nic_in_bytes_per_s", "nic_out_bytes_per_s"])
def test_a_network_interface_limits_all_its_connections_together(side: str) -> None:
    async def main(sim: Simulation) -> None:
        slow = sim.host("slow", **{side: MB})  # type: ignore[arg-type]  # one field by name
        ends: list[tuple[Sink, Sink]] = []
        for number in range(5):
            other = sim.host(f"other-{number}")
            pair = (slow, other) if side.startswith("nic_out") else (other, slow)
            ends.append(await join(*pair, port=8000 + number))
        before = sim.now
        for near, _ in ends:
            near.transport.write(bytes(MB))
        await _settle()
        assert [len(far.data) for _, far in ends] == [MB] * 5
        last = max(far.times[-1] for _, far in ends)
        assert 4.999 <= last - before <= 5.0 * 1.01

    with Simulation() as sim:
        sim.run(main(sim))


def test_a_slow_interface_behind_a_slow_link_does_not_add_up() -> None:
    async def main(sim: Simulation) -> None:
        near, far = await join(sim.host("a", nic_out_bytes_per_s=MB), sim.host("b", nic_in_bytes_per_s=MB))
        before = sim.now
        near.transport.write(bytes(5 * MB))
        await _settle()
        assert 4.999 <= far.times[-1] - before <= 5.0 * 1.01

    with Simulation(topology=_lan(latency_s=0.001, bandwidth_bytes_per_s=MB)) as sim:
        sim.run(main(sim))


def test_a_connection_to_a_busy_host_holds_up_nothing_else_of_the_caller() -> None:
    """1. A host sends for seconds. 2. Another dials it: the answer waits behind that. 3. It talks to a third now."""

    async def main(sim: Simulation) -> None:
        busy, caller = sim.host("busy", nic_out_bytes_per_s=MB), sim.host("caller", nic_out_bytes_per_s=MB)
        loading, _ = await join(busy, sim.host("sink"))
        near, far = await join(caller, sim.host("third"), port=8001)
        await join(sim.host("other"), busy, port=8002)
        loading.transport.write(bytes(5 * MB))
        await asyncio.sleep(0.1)
        dialling = caller.spawn(dial("busy", 8002))
        await asyncio.sleep(0.1)
        before = sim.now
        near.transport.write(b"x")
        await _settle()
        assert far.times[-1] - before < 0.1
        await dialling

    with Simulation() as sim:
        sim.run(main(sim))


def test_connections_share_a_link_evenly() -> None:
    async def main(sim: Simulation) -> None:
        a, b = sim.host("a"), sim.host("b")
        ends = [await join(a, b, port=8000 + number) for number in range(4)]
        for near, _ in ends:
            near.transport.write(bytes(2 * MB))
        await asyncio.sleep(6)
        shares = [len(far.data) for _, far in ends]
        assert sum(shares) == pytest.approx(6 * MB, rel=0.02)
        # Each keeps at most a window in the queue, so that is how far one can be ahead.
        assert max(shares) - min(shares) <= 256 * 1024
        await _settle()
        assert [len(far.data) for _, far in ends] == [2 * MB] * 4

    with Simulation(topology=_lan(latency_s=0.001, bandwidth_bytes_per_s=MB)) as sim:
        sim.run(main(sim))


def test_senders_that_find_the_queue_full_take_turns() -> None:
    async def main(sim: Simulation) -> None:
        a, b = sim.host("a"), sim.host("b")
        ends = [await join(a, b, port=8000 + number) for number in range(10)]
        for near, _ in ends:
            near.transport.write(bytes(MB))
        await asyncio.sleep(5)
        shares = [len(far.data) for _, far in ends]
        assert sum(shares) == pytest.approx(5 * MB, rel=0.02)
        assert max(shares) - min(shares) <= 150_000
        await _settle()
        assert [len(far.data) for _, far in ends] == [MB] * 10

    spec = LinkSpec(bandwidth_bytes_per_s=MB, queue_bytes_max=100_000)
    with Simulation(topology=Lan(spec)) as sim:
        sim.run(main(sim))


def test_the_queue_of_a_link_is_bounded_and_the_rest_waits_with_the_sender() -> None:
    async def main(sim: Simulation) -> None:
        near, _ = await join(sim.host("a"), sim.host("b"))
        near.transport.write(bytes(MB))
        await asyncio.sleep(0.5)
        queued = 0.5 * MB - near.transport.get_write_buffer_size()
        assert 0 < queued <= 120_000
        assert near.is_writing_paused

    spec = LinkSpec(bandwidth_bytes_per_s=MB, queue_bytes_max=100_000)
    with Simulation(topology=Lan(spec)) as sim:
        sim.run(main(sim))


def test_a_link_that_is_slowed_and_freed_under_way_delivers_everything() -> None:
    async def main(sim: Simulation) -> None:
        a, b = sim.host("a"), sim.host("b")
        ends = [await join(a, b, port=8000 + number) for number in range(3)]
        sim.shape("a", "b", bandwidth_bytes_per_s=50_000)
        for near, _ in ends:
            near.transport.write(bytes(MB))
        await asyncio.sleep(1)
        assert sum(len(far.data) for _, far in ends) == pytest.approx(50_000, rel=0.1)
        sim.shape("a", "b", bandwidth_bytes_per_s=None)
        # What is in the queue of the slow link comes through at its speed.
        await asyncio.sleep(60)
        assert [len(far.data) for _, far in ends] == [MB] * 3

    with Simulation() as sim:
        sim.run(main(sim))


def test_loss_shows_as_delay_of_at_least_a_retransmission_timeout() -> None:
    async def main(sim: Simulation) -> None:
        near, far = await join(sim.host("a"), sim.host("b"))
        for _ in range(400):
            near.transport.write(b"x")
            await asyncio.sleep(0.01)
        await asyncio.sleep(5)
        assert len(far.data) == 400
        assert sim.faults["loss"] > 5
        gaps = [later - earlier for earlier, later in pairwise(far.times)]
        assert max(gaps) > 0.15

    with Simulation(3, topology=_lan(latency_s=0.001, loss=0.05)) as sim:
        sim.run(main(sim))


def test_a_reader_that_does_not_read_holds_up_one_window_and_no_more() -> None:
    async def main(sim: Simulation) -> None:
        near, far = await join(sim.host("a"), sim.host("b"))
        far.transport.pause_reading()
        near.transport.write(bytes(MB))
        await asyncio.sleep(1)
        assert near.transport.get_write_buffer_size() == MB - 100_000
        assert near.is_writing_paused
        far.transport.resume_reading()
        await asyncio.sleep(1)
        assert len(far.data) == MB
        assert not near.is_writing_paused

    with Simulation(topology=_lan(window_bytes=100_000)) as sim:
        sim.run(main(sim))


def test_pieces_are_split_at_every_place_when_asked() -> None:
    async def main(sim: Simulation, sizes: set[int]) -> None:
        near, far = await join(sim.host("a"), sim.host("b"))
        for _ in range(200):
            near.transport.write(b"0123456789")
            await asyncio.sleep(0.01)
        assert bytes(far.data) == b"0123456789" * 200
        sizes.update(len(piece) for _, piece in far.pieces)

    sizes: set[int] = set()
    with Simulation(split=0.5) as sim:
        sim.run(main(sim, sizes))
    assert sizes == set(range(1, 11))


def test_hosts_are_found_by_name_and_by_address() -> None:
    async def main(sim: Simulation) -> None:
        await join(sim.host("a"), sim.host("b"))
        for name in ("b", sim.host("b").address):
            end = await sim.host("c").spawn(dial(name))
            assert end.transport.get_extra_info("peername") == (sim.host("b").address, 7000)
            assert end.transport.get_extra_info("sockname")[0] == sim.host("c").address

    with Simulation() as sim:
        sim.run(main(sim))


def test_a_connection_knows_how_far_its_other_end_is() -> None:
    async def main(sim: Simulation) -> None:
        await join(sim.host("a"), sim.host("b"))
        sim.shape("a", "b", latency_s=0.010)
        sim.shape("b", "a", latency_s=0.025, jitter_s=0.004)
        end = await sim.host("a").spawn(dial("b"))
        sock = end.transport.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        info = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 152)
        assert struct.unpack_from("=I", info, 68) == (37_000,)
        assert struct.unpack_from("=I", info, 148) == (35_000,)
        with pytest.raises(OSError):
            sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)

    with Simulation() as sim:
        sim.run(main(sim))


def test_loopback_reaches_only_the_same_host() -> None:
    async def main(sim: Simulation) -> None:
        a, b = sim.host("a"), sim.host("b")

        async def listen() -> None:
            await asyncio.get_running_loop().create_server(Sink, "127.0.0.1", 7000)

        await a.spawn(listen())
        await a.spawn(dial("localhost"))
        with pytest.raises(ConnectionRefusedError):
            await b.spawn(dial("localhost"))
        with pytest.raises(ConnectionRefusedError):
            await b.spawn(dial("a"))
        with pytest.raises(OSError, match="No route"):
            await b.spawn(dial("192.0.2.1"))

    with Simulation() as sim:
        sim.run(main(sim))


def test_a_program_started_outside_all_hosts_belongs_to_the_observer() -> None:
    async def program(sim: Simulation) -> Sink:
        await asyncio.get_running_loop().create_server(Sink, "0.0.0.0", 7000)
        return await dial("observer")

    with Simulation() as sim:
        task = sim.loop.create_task(program(sim))
        sim.run(_settle(1))
        address = sim.observer.address
        assert task.result().transport.get_extra_info("peername") == (address, 7000)
