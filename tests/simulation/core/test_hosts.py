"""Crash, restart, pause and thaw; clocks and processors."""

from __future__ import annotations

import asyncio

import pytest

from equipoise.errors import MisuseError
from equipoise.lab.simulation import CpuSpec, Simulation
from simulation.core.parts import PORT, Sink, dial, join


def test_a_crash_runs_no_finally_and_no_further_step() -> None:
    steps: list[str] = []

    async def program() -> None:
        try:
            while True:
                steps.append("alive")
                await asyncio.sleep(1)
        finally:
            steps.append("finally")

    async def main(sim: Simulation) -> None:
        host = sim.host("a")
        task = host.spawn(program())
        await asyncio.sleep(2.5)
        host.crash()
        await asyncio.sleep(100)
        assert steps == ["alive"] * 3
        assert not task.done()

    with Simulation() as sim:
        sim.run(main(sim))
        assert steps == ["alive"] * 3
        assert sim.faults["crash"] == 1


def test_a_crash_reaches_callbacks_timers_and_protocols() -> None:
    ran: list[str] = []

    async def main(sim: Simulation) -> None:
        a, b = sim.host("a"), sim.host("b")
        near, far = await join(a, b)

        async def schedule() -> None:
            loop = asyncio.get_running_loop()
            loop.call_later(1, ran.append, "timer")
            loop.call_soon(b.crash)
            loop.call_soon(ran.append, "callback")

        b.spawn(schedule())
        near.transport.write(b"to the dead")
        await asyncio.sleep(5)
        assert ran == []
        assert far.data == b""
        assert far.lost_at is None
        assert isinstance(near.error, ConnectionResetError)

    with Simulation() as sim:
        sim.run(main(sim))


def test_what_left_before_the_crash_arrives_before_the_reset() -> None:
    async def main(sim: Simulation) -> None:
        near, far = await join(sim.host("a"), sim.host("b"))
        far.transport.write(b"last words")
        await asyncio.sleep(0.0001)
        sim.host("b").crash()
        await asyncio.sleep(1)
        assert near.data == b"last words"
        assert isinstance(near.error, ConnectionResetError)

    with Simulation() as sim:
        sim.run(main(sim))


def test_peers_behind_a_cut_hear_of_a_crash_only_after_the_heal() -> None:
    async def main(sim: Simulation) -> None:
        near, _ = await join(sim.host("a"), sim.host("b"))
        sim.cut("a", "b")
        sim.host("b").crash()
        await asyncio.sleep(60)
        assert near.lost_at is None
        sim.heal("a", "b")
        await asyncio.sleep(5)
        assert isinstance(near.error, ConnectionResetError)

    with Simulation() as sim:
        sim.run(main(sim))


def test_a_crashed_host_refuses_and_a_silent_one_does_not_answer() -> None:
    async def main(sim: Simulation, silent: bool) -> BaseException | None:
        await join(sim.host("a"), sim.host("b"))
        sim.host("b").crash(silent=silent)
        task = sim.host("a").spawn(dial("b"))
        await asyncio.wait([task])
        return task.exception()

    for silent, error in ((False, ConnectionRefusedError), (True, TimeoutError)):
        with Simulation() as sim:
            assert isinstance(sim.run(main(sim, silent)), error)


def test_after_a_power_cut_peers_hear_nothing_until_the_host_is_back_and_they_send() -> None:
    async def main(sim: Simulation) -> None:
        near, _ = await join(sim.host("a"), sim.host("b"))
        idle, _ = await join(sim.host("c"), sim.host("b"), port=8000)
        sim.host("b").crash(silent=True)
        near.transport.write(b"hello?")
        await asyncio.sleep(60)
        assert near.lost_at is None
        sim.host("b").restart()
        await asyncio.sleep(5)
        assert isinstance(near.error, ConnectionResetError)
        assert idle.lost_at is None
        idle.transport.write(b"and now?")
        await asyncio.sleep(5)
        assert isinstance(idle.error, ConnectionResetError)

    with Simulation() as sim:
        sim.run(main(sim))


def test_a_restarted_host_is_a_new_incarnation_that_can_serve_again() -> None:
    async def main(sim: Simulation) -> None:
        a, b = sim.host("a"), sim.host("b")
        await join(a, b)
        b.crash()
        with pytest.raises(MisuseError, match="down"):
            b.spawn(asyncio.sleep(1))
        b.restart()
        assert b.incarnation.number == 2
        near, far = await join(a, b)
        near.transport.write(b"again")
        await asyncio.sleep(1)
        assert far.data == b"again"
        assert sim.faults["restart"] == 1
        with pytest.raises(MisuseError, match="up"):
            b.restart()

    with Simulation() as sim:
        sim.run(main(sim))


def test_code_of_an_old_incarnation_cannot_run_in_the_new_one() -> None:
    ran: list[str] = []

    async def main(sim: Simulation) -> None:
        host = sim.host("a")
        gate = asyncio.Event()

        async def wait() -> None:
            await gate.wait()
            ran.append("old")

        host.spawn(wait())
        await asyncio.sleep(1)
        host.crash()
        host.restart()
        gate.set()
        await asyncio.sleep(1)
        assert ran == []

    with Simulation() as sim:
        sim.run(main(sim))


def test_a_paused_host_delivers_nothing_and_loses_nothing() -> None:
    async def main(sim: Simulation) -> None:
        a, b = sim.host("a"), sim.host("b")
        near, far = await join(a, b)
        ticks: list[float] = []

        async def tick() -> None:
            while True:
                await asyncio.sleep(1)
                ticks.append(sim.now)

        b.spawn(tick())
        await asyncio.sleep(0.5)
        b.pause()
        for number in range(100):
            near.transport.write(bytes([number]))
            await asyncio.sleep(0.1)
        assert far.data == b""
        assert ticks == []
        b.thaw()
        await asyncio.sleep(0.1)
        assert bytes(far.data) == bytes(range(100))
        assert len(ticks) == 1
        far.transport.write(b"sockets intact")
        await asyncio.sleep(1)
        assert near.data == b"sockets intact"
        assert sim.faults["pause"] == 1

    with Simulation() as sim:
        sim.run(main(sim))


def test_a_paused_host_holds_up_its_senders_at_the_window() -> None:
    async def main(sim: Simulation) -> None:
        near, far = await join(sim.host("a"), sim.host("b"))
        sim.host("b").pause()
        near.transport.write(bytes(1_000_000))
        await asyncio.sleep(1)
        assert near.is_writing_paused
        sim.host("b").thaw()
        await asyncio.sleep(1)
        assert len(far.data) == 1_000_000

    with Simulation() as sim:
        sim.run(main(sim))


def test_a_paused_host_sends_nothing_from_its_buffers() -> None:
    async def main(sim: Simulation) -> None:
        a, b = sim.host("a"), sim.host("b")
        near, far = await join(a, b)
        far.transport.pause_reading()
        near.transport.write(bytes(1_000_000))
        await asyncio.sleep(1)
        a.pause()
        far.transport.resume_reading()
        await asyncio.sleep(1)
        assert len(far.data) == 256 * 1024
        a.thaw()
        await asyncio.sleep(1)
        assert len(far.data) == 1_000_000

    with Simulation() as sim:
        sim.run(main(sim))


def test_connections_to_a_paused_host_are_accepted_when_it_thaws() -> None:
    async def main(sim: Simulation) -> None:
        a, b = sim.host("a"), sim.host("b")
        _, first = await join(a, b)
        b.pause()
        end = await a.spawn(dial("b"))
        end.transport.write(b"early")
        await asyncio.sleep(5)
        b.thaw()
        await asyncio.sleep(1)
        assert end.lost_at is None
        assert first.lost_at is None

    with Simulation() as sim:
        sim.run(main(sim))


def test_wall_clocks_have_offsets_drift_and_steps_of_their_own() -> None:
    async def main(sim: Simulation) -> None:
        right, wrong = sim.host("right"), sim.host("wrong", clock_offset_s=3600, clock_drift=0.01)
        await asyncio.sleep(100)
        assert wrong.clock.time() - right.clock.time() == pytest.approx(3601)
        wrong.step_clock(-3601)
        assert wrong.clock.time() == pytest.approx(right.clock.time())
        wrong.clock.set_drift(0.0)
        await asyncio.sleep(100)
        assert wrong.clock.error_s == pytest.approx(0.0, abs=1e-5)
        assert sim.faults["clock step"] == 1

    with Simulation() as sim:
        sim.run(main(sim))


async def _flood(sim: Simulation, spec: CpuSpec, count: int) -> tuple[Sink, float]:
    """Send `count` pieces of ten bytes, a millisecond apart, to a host with a processor."""
    near, far = await join(sim.host("a"), sim.host("b", cpu=spec))
    before = sim.now
    for _ in range(count):
        near.transport.write(bytes(10))
        await asyncio.sleep(0.001)
    await asyncio.sleep(100)
    return far, before


@pytest.mark.parametrize(
    "spec",
    [
        CpuSpec(received_chunk_s=0.01),
        CpuSpec(received_byte_s=0.001),
        CpuSpec(received_cost_s=lambda data: len(data) / 1000),
        CpuSpec(speed=0.1, received_chunk_s=0.001),
    ],
)
def test_an_overloaded_processor_queues_what_arrives(spec: CpuSpec) -> None:
    async def main(sim: Simulation) -> None:
        far, before = await _flood(sim, spec, 100)
        assert len(far.data) == 1000
        assert far.times[-1] - before == pytest.approx(99 * 0.01, rel=0.02)
        cpu = sim.host("b").cpu
        assert cpu is not None
        assert cpu.busy_s == pytest.approx(1.0)

    with Simulation() as sim:
        sim.run(main(sim))


def test_timers_wait_while_the_processor_is_busy() -> None:
    async def main(sim: Simulation) -> None:
        host = sim.host("a", cpu=CpuSpec())
        fired: list[float] = []

        async def work() -> None:
            asyncio.get_running_loop().call_later(0.1, lambda: fired.append(sim.now))
            assert host.cpu is not None
            host.cpu.charge(5)

        host.spawn(work())
        await asyncio.sleep(10)
        assert fired == pytest.approx([5])

    with Simulation() as sim:
        sim.run(main(sim))


@pytest.mark.parametrize(
    "spec",
    [
        CpuSpec(written_chunk_s=0.01),
        CpuSpec(written_byte_s=0.001),
        CpuSpec(written_cost_s=lambda data: 0.01),
    ],
)
def test_writes_leave_one_after_the_other_as_the_processor_gets_to_them(spec: CpuSpec) -> None:
    async def main(sim: Simulation) -> None:
        hub = sim.host("hub", cpu=spec)
        ends = [await join(hub, sim.host(f"c{number}"), port=8000 + number) for number in range(5)]
        before = sim.now

        def broadcast() -> None:
            for near, _ in ends:
                near.transport.write(bytes(10))

        hub.call(broadcast)
        await asyncio.sleep(1)
        delays = [far.times[0] - before for _, far in ends]
        assert delays == pytest.approx([0.01 * number + 0.00025 for number in range(1, 6)])

    with Simulation() as sim:
        sim.run(main(sim))


def test_a_crash_ends_the_work_of_a_processor() -> None:
    async def main(sim: Simulation) -> None:
        host = sim.host("a", cpu=CpuSpec())
        assert host.cpu is not None
        host.cpu.charge(1000)
        host.crash()
        host.restart()
        started: list[float] = []

        async def start() -> None:
            started.append(sim.now)

        await host.spawn(start())
        assert started == [0.0]

    with Simulation() as sim:
        sim.run(main(sim))


def test_a_host_can_be_asked_for_again_by_name() -> None:
    with Simulation() as sim:
        assert sim.host("a") is sim.host("a")
        assert sim.host("a").address != sim.host("b").address
        with pytest.raises(MisuseError, match="unknown host"):
            sim.cut("a", "nowhere")


def test_a_server_on_a_crashed_host_frees_its_port() -> None:
    async def main(sim: Simulation) -> None:
        host = sim.host("a")

        async def listen() -> None:
            await asyncio.get_running_loop().create_server(Sink, "0.0.0.0", PORT)

        await host.spawn(listen())
        with pytest.raises(OSError, match="in use"):
            await host.spawn(listen())
        host.crash()
        host.restart()
        await host.spawn(listen())

    with Simulation() as sim:
        sim.run(main(sim))
