"""A reader of a simulated hub's telemetry over minutes, with an absence longer than the retention, and a crash."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import hiredis

import equipoise
from equipoise.hub import Hub, HubSettings
from equipoise.lab.simulation import CpuSpec, Simulation
from equipoise.lab.simulation.host import Host
from equipoise.lab.simulation.simulated_hub import HostProcess
from equipoise.resp.replies import spell
from telemetry.records import read_stream

PORT = 6399
COST = CpuSpec(received_chunk_s=20e-6, written_chunk_s=10e-6)


async def serve(host: Host) -> None:
    settings = HubSettings(name="h", host="hub", port=PORT, insecure=True)
    hub = Hub(settings, wall_clock=host.clock.time, rng=host.random, process=HostProcess(host))
    await hub.start()


async def publish_for_ever(host: Host, count_per_s: int) -> None:
    async with equipoise.connect(f"equipoise://hub:{PORT}", rng=host.random) as bus:
        while True:
            for i in range(count_per_s):
                await bus.publish(f"t{i % 3}", b"x" * 10)
            await asyncio.sleep(1.0)


@dataclass
class Story:
    """What the reader found."""

    records: list[dict[str, Any]] = field(default_factory=list)
    streams: list[bytes] = field(default_factory=list)
    missed: int = 0
    restarts: int = 0


class Reader:
    """Asks once a second, over the simulated network."""

    def __init__(self, story: Story) -> None:
        self._story = story
        self._incarnation = self._next = 0

    async def read_for(self, duration_s: float) -> None:
        until = asyncio.get_running_loop().time() + duration_s
        while asyncio.get_running_loop().time() < until:
            try:
                reader, writer = await asyncio.open_connection("hub", PORT)
                while asyncio.get_running_loop().time() < until:
                    await self._read(reader, writer)
                    await asyncio.sleep(1.0)
                writer.close()
            except OSError:
                await asyncio.sleep(0.5)

    async def _read(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        parser = hiredis.Reader()
        writer.write(spell([b"EQ.TELEMETRY", b"%d" % self._incarnation, b"%d" % self._next, b"100000"]))
        while (reply := parser.gets()) is False:
            data = await asyncio.wait_for(reader.read(65_536), 10.0)
            if not data:
                raise ConnectionResetError
            parser.feed(data)
        incarnation, first, self._next, stream, _ = reply
        if incarnation == self._incarnation:
            self._story.missed += first - (
                self._story.records[-1]["sequence"] + 1 if self._is_continued else 0
            )
        else:
            self._story.restarts += 1
            self._incarnation = incarnation
        self._story.streams.append(stream)
        self._story.records += read_stream(stream)

    @property
    def _is_continued(self) -> bool:
        records = self._story.records
        return bool(records) and records[-1]["incarnation"] == self._incarnation


def play(seed: int) -> Story:
    story = Story()

    async def main(sim: Simulation) -> None:
        host = sim.host("hub", cpu=COST)
        host.spawn(serve(host))
        await asyncio.sleep(0.1)
        publisher = sim.host("publisher")
        publisher.spawn(publish_for_ever(publisher, 6))
        reader = Reader(story)
        await reader.read_for(60.0)
        # Longer than records are kept.
        await asyncio.sleep(200.0)
        await reader.read_for(60.0)
        host.crash()
        await asyncio.sleep(5.0)
        host.restart()
        host.spawn(serve(host))
        await reader.read_for(60.0)

    with Simulation(seed=seed, time_s_max=10_000.0) as sim:
        sim.run(main(sim))
    return story


def test_a_reader_gets_every_record_once_or_learns_how_many_it_missed() -> None:
    story = play(1)
    lives: dict[int, list[int]] = {}
    for record in story.records:
        lives.setdefault(record["incarnation"], []).append(record["sequence"])
    assert story.restarts == len(lives) == 2
    first, second = lives.values()
    assert first == sorted(set(first)) and second == list(range(len(second)))
    holes = first[-1] + 1 - len(first)
    assert holes == story.missed
    # 80 seconds of four records each had fallen out.
    assert 300 <= holes <= 340


def test_all_published_messages_are_recorded() -> None:
    story = play(2)
    topics = [record for record in story.records if record["kind"] == "topic"]
    for name in (b"t0", b"t1", b"t2"):
        windows = [record["publications"] for record in topics if record["topic"] == name]
        # Two a second; a window that is not in step with the publisher may have none or four, not so its neighbours.
        assert len(windows) > 150 and 1.9 < sum(windows) / len(windows) < 2.1
    assert {record["publishers"] for record in topics} == {1}


def test_a_hub_records_the_processor_time_of_its_machine() -> None:
    hubs = [record for record in play(3).records if record["kind"] == "hub"]
    busy = [record["cpu_ratio"] for record in hubs[5:50]]
    # Some eight chunks a second in and as many out.
    assert all(0 < ratio < 0.01 for ratio in busy)
    assert {record["memory_bytes"] for record in hubs} == {None}
    # The first of a life ends when those of other hubs do.
    later = [after for before, after in pairwise(hubs) if before["incarnation"] == after["incarnation"]]
    assert all(900_000 < record["window_us"] < 1_200_000 for record in later)


def test_the_same_seed_gives_the_same_records_to_the_byte() -> None:
    assert play(4).streams == play(4).streams
