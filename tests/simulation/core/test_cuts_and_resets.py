"""Cuts delay all data and lose none; resets break connections in the middle."""

from __future__ import annotations

import asyncio

import pytest

from equipoise.lab.simulation import Lan, LinkSpec, Simulation
from simulation.core.parts import dial, join


def test_data_sent_over_a_cut_arrives_in_order_after_the_heal() -> None:
    async def main(sim: Simulation) -> None:
        near, far = await join(sim.host("a"), sim.host("b"))
        near.transport.write(b"before ")
        await asyncio.sleep(1)
        sim.cut("a", "b")
        near.transport.write(b"during ")
        await asyncio.sleep(10)
        near.transport.write(b"still ")
        assert far.data == b"before "
        sim.heal("a", "b")
        healed_at = sim.now
        near.transport.write(b"after")
        await asyncio.sleep(5)
        assert far.data == b"before during still after"
        assert healed_at < far.times[1] < healed_at + 2.1
        assert sim.faults["cut"] == sim.faults["heal"] == 2

    with Simulation() as sim:
        sim.run(main(sim))


def test_data_in_flight_at_the_cut_waits_too() -> None:
    async def main(sim: Simulation) -> None:
        near, far = await join(sim.host("a"), sim.host("b"))
        near.transport.write(b"under way")
        await asyncio.sleep(0.0001)
        sim.cut("a", "b")
        await asyncio.sleep(5)
        assert far.data == b""
        sim.heal("a", "b")
        await asyncio.sleep(5)
        assert far.data == b"under way"

    with Simulation() as sim:
        sim.run(main(sim))


def test_the_senders_buffer_fills_behind_a_cut_and_empties_after_it() -> None:
    async def main(sim: Simulation) -> None:
        near, far = await join(sim.host("a"), sim.host("b"))
        sim.cut("a", "b")
        for _ in range(100):
            near.transport.write(bytes(10_000))
            await asyncio.sleep(0.01)
        assert near.is_writing_paused
        assert near.transport.get_write_buffer_size() == 1_000_000 - 256 * 1024
        sim.heal("a", "b")
        await asyncio.sleep(10)
        assert len(far.data) == 1_000_000
        assert not near.is_writing_paused

    with Simulation() as sim:
        sim.run(main(sim))


def test_a_healed_link_is_no_faster_than_it_was() -> None:
    async def main(sim: Simulation) -> None:
        near, far = await join(sim.host("a"), sim.host("b"))
        near.transport.write(bytes(3_000_000))
        await asyncio.sleep(1)
        sim.cut("a", "b")
        await asyncio.sleep(5)
        sim.heal("a", "b")
        healed_at = sim.now
        await asyncio.sleep(20)
        assert len(far.data) == 3_000_000
        late = [(at, len(piece)) for at, piece in far.pieces if at > healed_at]
        assert late[-1][0] - late[0][0] >= sum(size for _, size in late[1:]) / 1_000_000 * 0.99

    with Simulation(topology=Lan(LinkSpec(bandwidth_bytes_per_s=1_000_000))) as sim:
        sim.run(main(sim))


def test_a_one_way_cut_stops_one_direction() -> None:
    async def main(sim: Simulation) -> None:
        near, far = await join(sim.host("a"), sim.host("b"))
        sim.cut("a", "b", one_way=True)
        near.transport.write(b"question")
        far.transport.write(b"news")
        await asyncio.sleep(5)
        assert far.data == b""
        assert near.data == b"news"
        sim.heal("a", "b", one_way=True)
        await asyncio.sleep(5)
        assert far.data == b"question"

    with Simulation() as sim:
        sim.run(main(sim))


def test_without_acknowledgements_a_sender_stops_at_its_window_and_goes_on_after_the_heal() -> None:
    async def main(sim: Simulation) -> None:
        near, far = await join(sim.host("a"), sim.host("b"))
        sim.cut("b", "a", one_way=True)
        near.transport.write(bytes(1_000_000))
        await asyncio.sleep(5)
        assert len(far.data) == 256 * 1024
        sim.heal("b", "a", one_way=True)
        await asyncio.sleep(5)
        assert len(far.data) == 1_000_000

    with Simulation() as sim:
        sim.run(main(sim))


def test_a_connection_attempt_over_a_cut_times_out_in_two_minutes() -> None:
    async def main(sim: Simulation) -> None:
        await join(sim.host("a"), sim.host("b"))
        sim.cut("a", "b")
        before = sim.now
        with pytest.raises(TimeoutError):
            await sim.host("a").spawn(dial("b"))
        assert sim.now - before == pytest.approx(127)

    with Simulation() as sim:
        sim.run(main(sim))


@pytest.mark.parametrize("direction", [("a", "b"), ("b", "a")])
def test_a_connection_attempt_comes_through_when_the_link_heals(direction: tuple[str, str]) -> None:
    async def main(sim: Simulation) -> None:
        await join(sim.host("a"), sim.host("b"))
        sim.cut(*direction, one_way=True)
        task = sim.host("a").spawn(dial("b"))
        await asyncio.sleep(2)
        assert not task.done()
        sim.heal(*direction, one_way=True)
        before = sim.now
        await task
        assert sim.now - before < 2

    with Simulation() as sim:
        sim.run(main(sim))


def test_a_connection_with_unacknowledged_data_fails_after_a_quarter_of_an_hour() -> None:
    async def main(sim: Simulation) -> None:
        near, far = await join(sim.host("a"), sim.host("b"))
        sim.cut("a", "b")
        near.transport.write(b"into the void")
        await asyncio.sleep(920)
        assert near.lost_at is None
        await asyncio.sleep(10)
        assert isinstance(near.error, TimeoutError)
        assert far.lost_at is None

    with Simulation() as sim:
        sim.run(main(sim))


def test_an_isolated_host_is_cut_off_from_all_and_rejoins_all() -> None:
    async def main(sim: Simulation) -> None:
        a, b, c = (sim.host(name) for name in "abc")
        to_b, _ = await join(a, b, port=1)
        to_c, _ = await join(a, c, port=2)
        b_to_c, c_from_b = await join(b, c, port=3)
        sim.isolate("a")
        b_to_c.transport.write(b"hello")
        _peer_write(to_b, b"x")
        _peer_write(to_c, b"y")
        await asyncio.sleep(3)
        assert c_from_b.data == b"hello"
        assert sim.faults["cut"] >= 4
        sim.rejoin("a")
        await asyncio.sleep(3)
        assert to_b.lost_at is None
        assert to_c.lost_at is None

    def _peer_write(end: object, data: bytes) -> None:
        end.transport.write(data)  # type: ignore[attr-defined]  # a Sink

    with Simulation() as sim:
        sim.run(main(sim))


def test_flapping_cuts_and_heals_as_often_as_asked_and_loses_nothing() -> None:
    async def main(sim: Simulation) -> None:
        near, far = await join(sim.host("a"), sim.host("b"))

        async def send() -> None:
            for number in range(200):
                near.transport.write(bytes([number]))
                await asyncio.sleep(0.02)

        task = sim.host("a").spawn(send())
        await sim.flap("a", "b", times=6, down_s=0.2, up_s=0.2)
        await task
        await asyncio.sleep(5)
        assert bytes(far.data) == bytes(range(200))
        assert sim.faults["cut"] == sim.faults["heal"] == 12

    for seed in range(5):
        with Simulation(seed) as sim:
            sim.run(main(sim))


def test_a_reset_ends_both_ends_with_an_error_and_may_cut_a_piece_short() -> None:
    kept: set[int] = set()

    async def main(sim: Simulation) -> None:
        near, far = await join(sim.host("a"), sim.host("b"))
        near.transport.write(b"0123456789")
        await asyncio.sleep(0.0001)
        assert sim.reset_connections("a", "b") == 1
        await asyncio.sleep(1)
        for end in (near, far):
            assert isinstance(end.error, ConnectionResetError)
            assert end.eof_at is None
        assert b"0123456789".startswith(bytes(far.data))
        kept.add(len(far.data))
        near.transport.write(b"after the end")
        await asyncio.sleep(1)

    for seed in range(150):
        with Simulation(seed) as sim:
            sim.run(main(sim))
            assert sim.faults["reset"] == 1
    assert kept == set(range(11))


def test_a_reset_spares_connections_to_others() -> None:
    async def main(sim: Simulation) -> None:
        near, _ = await join(sim.host("a"), sim.host("b"), port=1)
        spared, other = await join(sim.host("a"), sim.host("c"), port=2)
        assert sim.reset_connections("b", "a") == 1
        spared.transport.write(b"alive")
        await asyncio.sleep(1)
        assert near.lost_at is not None
        assert other.data == b"alive"
        assert sim.reset_connections("a", "b") == 0

    with Simulation() as sim:
        sim.run(main(sim))


def test_a_reset_reaches_a_protocol_that_has_paused_reading() -> None:
    async def main(sim: Simulation) -> None:
        near, far = await join(sim.host("a"), sim.host("b"))
        far.transport.pause_reading()
        near.transport.write(b"unread")
        await asyncio.sleep(1)
        sim.reset_connections("a", "b")
        await asyncio.sleep(1)
        assert isinstance(far.error, ConnectionResetError)
        assert far.data == b""

    with Simulation() as sim:
        sim.run(main(sim))


def test_a_crash_after_a_reset_behind_a_cut_is_survived() -> None:
    async def main(sim: Simulation) -> None:
        near, far = await join(sim.host("a"), sim.host("b"))
        near.transport.write(b"under way")
        await asyncio.sleep(0.0001)
        sim.cut("a", "b")
        sim.reset_connections("a", "b")
        await asyncio.sleep(1)
        sim.host("a").crash()
        sim.heal("a", "b")
        await asyncio.sleep(5)
        assert isinstance(far.error, ConnectionResetError)

    for seed in range(10):
        with Simulation(seed) as sim:
            sim.run(main(sim))
