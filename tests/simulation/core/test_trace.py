"""The trace: its lines, its hash, and the lines it keeps."""

from __future__ import annotations

import asyncio
import io
import re

from equipoise.lab.simulation import Simulation
from simulation.core.parts import join

LINE = re.compile(r"\d+\.\d{9} [a-z]+ \S+ \S+ (-|\d+)")


async def _talk(sim: Simulation, times: int = 3) -> None:
    near, far = await join(sim.host("a"), sim.host("b"))
    for _ in range(times):
        near.transport.write(b"hello")
        await asyncio.sleep(0.01)
    sim.cut("a", "b")
    sim.heal("a", "b")
    sim.host("b").pause()
    sim.host("b").thaw()
    far.transport.close()
    await asyncio.sleep(1)


def test_every_event_is_one_line_of_five_columns() -> None:
    with Simulation() as sim:
        sim.run(_talk(sim))
        sim.note("the end")
        lines = sim.trace.lines(100)
    assert all(LINE.fullmatch(line) for line in lines), lines
    kinds = "connect accept deliver deliver deliver cut cut heal heal pause thaw lost eof lost note"
    assert [line.split()[1] for line in lines] == kinds.split()
    assert lines[2] == "0.001000000 deliver a:49152>b:7000 - 5"
    assert lines[-1].endswith("note observer the_end -")


def test_only_the_last_lines_are_kept_and_all_can_be_written_out() -> None:
    sink = io.StringIO()
    with Simulation(trace_to=sink) as sim:
        sim.run(_talk(sim, times=20_000))
        count = sim.trace.count
        kept = sim.trace.lines(10**9)
        assert 4096 <= len(kept) <= 3 * 4096
        last = sim.trace.lines(7)
    written = sink.getvalue().splitlines()
    assert len(written) == count > 20_000
    assert written[-7:] == last == kept[-7:]


def test_writing_the_trace_out_does_not_change_its_hash() -> None:
    digests = set()
    for sink in (None, io.StringIO()):
        with Simulation(5, trace_to=sink) as sim:
            sim.run(_talk(sim, times=5000))
            digests.add(sim.trace.digest())
    assert len(digests) == 1


def test_the_hash_tells_apart_runs_that_differ_in_one_note() -> None:
    def digest(text: str) -> str:
        with Simulation() as sim:
            sim.run(_talk(sim))
            sim.note(text)
            return sim.trace.digest()

    assert digest("x") == digest("x") != digest("y")


def test_the_hash_is_the_same_before_and_after_closing() -> None:
    with Simulation() as sim:
        sim.run(_talk(sim))
        before = sim.trace.digest()
    assert sim.trace.digest() == before
