"""ePulsar, figure 6 (5.6): monitoring traffic of a hub by number of topics and clients.

A real hub; its clients report their coordinates (EQ.WHERE), and its telemetry is read over the network as by the
pipeline. AllPairs also needs the coordinate of every client, which is encoded in the same way and added.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from random import Random

import pyarrow as pa  # type: ignore[import-untyped]  # It ships no types.

from equipoise.client.wire.codec import encode_publish, encode_request
from equipoise.coordinates import Coordinate, CoordinateSettings
from equipoise.hub import HubSettings, Limits
from equipoise.lab.experiments.experiment import Experiment, Progress, curves, sweep
from equipoise.lab.experiments.result import Claim, Figure, Panel, Size
from equipoise.lab.simulation import Simulation
from equipoise.lab.simulation.cluster.controller import SimulatedTelemetryReader
from equipoise.lab.simulation.simulated_hub import PORT, SimulatedHub, alone

__all__ = ["EXPERIMENT_6", "MonitoringScale", "Traffic", "listen"]

HUB, READER = "hub", "reader"
DIFFERENCE_MAX = 0.05
# Seconds without topics, and seconds with topics.
IDLE_S, BUSY_S = 3, 5
PATIENCE_S = 60


@dataclass(frozen=True, slots=True)
class MonitoringScale:
    topics: tuple[int, ...] = (1, 10, 50, 100)
    clients: tuple[int, ...] = (1, 10, 100, 1_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """The telemetry of one hub in a second."""

    topics: int
    # Number per topic.
    clients: int
    # With and without the topics.
    bytes_per_s: float
    idle_bytes_per_s: float
    # Extra bytes for the coordinates of all clients.
    coordinates_bytes: int
    # The smallest number of located clients of a topic.
    located: int

    @property
    def topic_bytes(self) -> float:
        """Bytes per second of one topic."""
        return (self.bytes_per_s - self.idle_bytes_per_s) / self.topics

    @property
    def pairs_bytes_per_s(self) -> float:
        """Bytes per second with the coordinate of every client."""
        return self.bytes_per_s + self.coordinates_bytes


class MonitoringClient(asyncio.Protocol):
    """Subscribes, reports its coordinate, and drops all messages."""

    def __init__(self, topics: Sequence[bytes], at: Coordinate) -> None:
        self._topics = topics
        self._at = at
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.write(encode_request(b"HELLO", b"3"))
        transport.write(encode_request(b"EQ.WHERE", b"20000", self._at.to_bytes()))
        transport.write(encode_request(b"SUBSCRIBE", *self._topics))

    def publish(self) -> None:
        assert self._transport is not None, "connected before"
        self._transport.write(b"".join(encode_publish(topic, b"news") for topic in self._topics))

    def data_received(self, data: bytes) -> None:
        """Dropped."""


def listen(topics: int, clients: int, seed: int) -> Traffic:
    """Run a simulation in which every client uses every topic and one client publishes."""
    with Simulation(seed=seed, steps_max=10**10) as sim:
        return sim.run(_listen(sim, topics, clients))


async def _listen(sim: Simulation, topics: int, clients: int) -> Traffic:
    host, reading = sim.host(HUB), sim.host(READER)
    limits = Limits(accepts_per_s=1_000_000, connections_per_address_max=10_000)
    settings = HubSettings(name=HUB, host="0.0.0.0", port=PORT, insecure=True, limits=limits)
    await host.spawn(SimulatedHub(host, settings, alone).serve(), name="hub")
    names = [b"topic-%d" % number for number in range(topics)]
    rng = Random(f"where {sim.seed}")
    places = [_anywhere(rng, CoordinateSettings()) for _ in range(clients)]
    return await reading.spawn(_read(sim, names, places), name="read")


async def _read(sim: Simulation, names: list[bytes], places: list[Coordinate]) -> Traffic:
    loop, reader = asyncio.get_running_loop(), SimulatedTelemetryReader()
    await reader.read([HUB])

    async def second() -> tuple[int, list[pa.RecordBatch]]:
        await asyncio.sleep(1.0)
        before = reader.stream_bytes
        batches = await reader.read([HUB])
        return reader.stream_bytes - before, batches

    idle = [(await second())[0] for _ in range(IDLE_S)]
    clients = [
        (await loop.create_connection(partial(MonitoringClient, names, at), HUB, PORT))[1] for at in places
    ]
    taken: list[int] = []
    located = 0
    for _ in range(PATIENCE_S):
        clients[0].publish()
        size, batches = await second()
        located = _located(batches, len(names))
        if located == len(places):
            taken.append(size)
        if len(taken) == BUSY_S:
            break
    return Traffic(
        topics=len(names),
        clients=len(places),
        bytes_per_s=sum(taken) / len(taken) if taken else float("nan"),
        idle_bytes_per_s=sum(idle) / len(idle),
        coordinates_bytes=_coordinates_bytes(names, places),
        located=located,
    )


def _located(batches: Sequence[pa.RecordBatch], topics: int) -> int:
    """The smallest number of located subscribers of a topic; 0 until all topics have records."""
    rows = [row for batch in batches for row in batch.to_pylist() if row["kind"] == "topic"]
    found = [row["subscribers_located"] or 0 for row in rows]
    return min(found) if len(found) >= topics else 0


def _coordinates_bytes(names: list[bytes], places: list[Coordinate]) -> int:
    """Size of the coordinates of all clients of all topics as an Arrow batch."""
    every = [(topic, at.to_bytes()) for topic in range(len(names)) for at in places]
    columns = {
        "topic": pa.array([topic for topic, _ in every], pa.int32()),
        "at": pa.array([at for _, at in every], pa.binary()),
    }
    batch = pa.record_batch(columns)
    return int(batch.serialize().size)


def _anywhere(rng: Random, settings: CoordinateSettings) -> Coordinate:
    """A random coordinate within some 50 ms of the centre."""
    point = tuple(rng.gauss(0.0, 0.025) for _ in range(settings.dimensions))
    return Coordinate(point, 0.1, 0.002 + 0.01 * rng.random())


Reports = dict[tuple[int, int], Traffic]


@dataclass(frozen=True, slots=True)
class Monitored:
    scale: MonitoringScale
    found: Reports


def listen_all(scale: MonitoringScale, seed: int, progress: Progress) -> Monitored:
    cells = [(topics, clients) for clients in scale.clients for topics in scale.topics]
    found = sweep(partial(_listen_cell, seed=seed), cells, progress, "topics and clients")
    return Monitored(scale, found)


def _listen_cell(cell: tuple[int, int], seed: int) -> Traffic:
    return listen(*cell, seed)


def _parameters(seen: Monitored) -> tuple[tuple[str, str], ...]:
    return (
        ("topics", ", ".join(map(str, seen.scale.topics))),
        ("clients of each topic", ", ".join(map(str, seen.scale.clients))),
        ("hub", "one, all defaults; its records are read each second as the pipeline reads them"),
    )


def _notes(seen: Monitored) -> tuple[str, ...]:
    return (
        "Bytes are those of the Arrow stream of a reading: one record for each topic, with two centroids, two "
        "deviations and two longest legs beside load and rates, and one for the hub. A topic's are what the stream "
        "grows by with all topics, divided by their number.",
        "All clients of a topic subscribe and say where they are, one of them publishes. With every client's "
        "coordinate (AllPairs) the stream would have 88 bytes more for each, encoded in the same way here.",
    )


def _claims(seen: Monitored) -> tuple[Claim, ...]:
    scale, found = seen.scale, seen.found
    topics, few, many = scale.topics[-1], scale.clients[0], scale.clients[-1]
    one, thousand = found[topics, few], found[topics, many]
    ratios = [
        abs(found[count, many].topic_bytes / found[count, few].topic_bytes - 1) for count in scale.topics
    ]
    saved = thousand.pairs_bytes_per_s / thousand.bytes_per_s
    grown = found[topics, few].topic_bytes / found[scale.topics[0], few].topic_bytes
    return (
        Claim(
            claim=f"bytes reported of a topic, {many:,} clients against {few}",
            paper=f"independent of the number of clients; ± {DIFFERENCE_MAX:.0%} asked",
            ours=f"{thousand.topic_bytes:.0f} B/s against {one.topic_bytes:.0f} B/s; at most {max(ratios):.1%} apart "
            "for any number of topics",
            holds=max(ratios) <= DIFFERENCE_MAX and all(one.located == one.clients for one in found.values()),
            value=max(ratios),
            at_most=DIFFERENCE_MAX,
        ),
        Claim(
            claim="more topics, more bytes, and never more than their number says",
            paper="grows with the number of topics",
            ours=f"a topic takes {grown:.2f} of what a single one does when there are {topics}",
            holds=grown <= 1.1 and one.bytes_per_s > found[scale.topics[0], few].bytes_per_s,
            value=grown,
            at_most=1.1,
        ),
        Claim(
            claim=f"against every client's coordinate, {topics} topics with {many:,} clients",
            paper="considerable savings",
            ours=f"{_amount(thousand.bytes_per_s)}/s against {_amount(thousand.pairs_bytes_per_s)}/s: ×{saved:.0f}",
            holds=saved > 10,
            value=saved,
            at_least=10.0,
        ),
    )


def _amount(count: float) -> str:
    return f"{count / 1e6:.1f} MB" if count >= 1e6 else f"{count / 1e3:.1f} kB"


def _figure(seen: Monitored) -> Figure:
    scale, found = seen.scale, seen.found

    def rows(label: str, counts: Sequence[int]) -> list[tuple[str, list[Traffic]]]:
        return [
            (f"{label}, {count:,} clients", [found[topics, count] for topics in scale.topics])
            for count in counts
        ]

    few_and_many = (scale.clients[0], scale.clients[-1])
    lines = (
        *curves(
            rows("every coordinate", scale.clients),
            lambda one: one.topics,
            lambda one: one.pairs_bytes_per_s / 1e3,
        ),
        *curves(rows("centroids", few_and_many), lambda one: one.topics, lambda one: one.bytes_per_s / 1e3),
    )
    return Figure(
        name="epulsar-6",
        title="What a hub reports (figure 6)",
        x_label="topics",
        panels=(Panel(title="monitoring traffic", y_label="kB/s", lines=lines, is_log=True),),
    )


EXPERIMENT_6 = Experiment(
    name="epulsar-6",
    source="ePulsar, 5.6, figure 6",
    summary="Monitoring traffic of a hub with ever more topics and clients: centroids against every coordinate.",
    worlds={Size.FULL: MonitoringScale(), Size.QUICK: MonitoringScale((1, 16), (1, 100, 1_000))},
    world=listen_all,
    claims=_claims,
    figures=(_figure,),
    parameters=_parameters,
    notes=_notes,
    takes=("a few seconds", "half a minute"),
)
