"""One busy channel on one or several servers: capacity and latency.

Publishers send at fixed intervals with random phases; every subscriber must receive every message. The response time is
from the publish to each delivery. Only the number of clients changes the load, and the processor limits a server: all
servers of a run have equal processors.

The initial plan states how the channel is replicated. In a planned world it does not contain the channel: clients
connect over a while, a controller reads the hubs' telemetry, and the planner decides (Algorithm 1). The measurement
starts when all clients are connected and the plan has had time to follow.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable
from dataclasses import dataclass

from equipoise.lab.experiments.cloud_region import CloudRegion, Command
from equipoise.lab.experiments.meter import Meter, percentile
from equipoise.lab.simulation import Simulation
from equipoise.lab.simulation.cpu import measured_cpu
from equipoise.lab.simulation.host import Host
from equipoise.lab.simulation.legs import CLOUD, Legs
from equipoise.lab.simulation.light_client.client import LightClient
from equipoise.model import Entry, Mode
from equipoise.plan import PlannerSettings
from equipoise.plan.planner import Planner

__all__ = [
    "OPENING_S",
    "PLANNED_OPENING_S",
    "PLANNED_SETTLE_S",
    "ChannelWorld",
    "Point",
    "capacity",
    "measure",
]

TOPIC = b"channel"
# Time for all clients to connect and subscribe, each at a random time within the first half.
OPENING_S = 10.0
# The same in a planned world: long enough for two changes of the replication, 30 s apart. And then the time for the
# last change to take effect.
PLANNED_OPENING_S = 120.0
PLANNED_SETTLE_S = 30.0
# A message that takes longer counts as lost.
DRAIN_S = 10.0
_STAMP = struct.Struct("<d")


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelWorld:
    """One run."""

    publishers: int
    subscribers: int
    servers: int = 1
    mode: Mode = Mode.SINGLE
    # Whether the planner chooses how the channel is replicated; `mode` is not used then.
    is_planned: bool = False
    # Rate of each publisher.
    messages_per_s: float = 10.0
    payload_bytes: int = 300
    # Speed relative to the processor on which hubs were measured.
    cpu_speed: float = 1.0
    duration_s: float = 10.0
    seed: int = 1

    @property
    def opening_s(self) -> float:
        return PLANNED_OPENING_S if self.is_planned else OPENING_S

    @property
    def settle_s(self) -> float:
        return PLANNED_SETTLE_S if self.is_planned else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """The result of one run."""

    clients: int
    response_s_mean: float
    response_s_p99: float
    expected: int
    delivered: int
    # The busiest server's processor while messages were sent, 0 to 1.
    cpu_ratio_max: float
    missed: int
    # How the channel was replicated at the end.
    mode: Mode = Mode.SINGLE
    homes: int = 1

    def is_within(self, response_s_p99_max: float) -> bool:
        """Whether all messages arrived, and in time."""
        return self.delivered == self.expected and self.response_s_p99 <= response_s_p99_max


def measure(channel: ChannelWorld) -> Point:
    """Run the channel in a new simulation."""
    topology = Legs(seed=channel.seed)
    with Simulation(seed=channel.seed, topology=topology, steps_max=10**10) as sim:
        return sim.run(_Run(sim, channel).play())


def planner_settings(channel: ChannelWorld) -> PlannerSettings:
    """Settings that release no server, with the message costs of this processor.

    Otherwise the planner would treat a cost of more than fifty times its constants as a measurement error.
    """
    usual = PlannerSettings()
    return PlannerSettings(
        servers_min=channel.servers,
        servers_max=channel.servers,
        delivery_cost_us=usual.delivery_cost_us / channel.cpu_speed,
        publication_cost_us=usual.publication_cost_us / channel.cpu_speed,
    )


def capacity(
    point_at: Callable[[int], Point], low: int, high: int, response_s_p99_max: float, step: int
) -> int:
    """The largest number of clients, within `step`, that are served in time: `low` is, `high` is not."""
    while high - low > step:
        middle = (low + high) // 2
        if point_at(middle).is_within(response_s_p99_max):
            low = middle
        else:
            high = middle
    return low


class _Run:
    """The components of one run."""

    def __init__(self, sim: Simulation, channel: ChannelWorld) -> None:
        self._sim = sim
        self._channel = channel
        self._meter = Meter()
        names = [f"hub-{number}" for number in range(1, channel.servers + 1)]
        hubs, cpu = dict.fromkeys(names, CLOUD), measured_cpu(channel.cpu_speed)
        self._region = CloudRegion(sim, Command(hubs=hubs, cloud=CLOUD, cpu=cpu))
        self._clients: list[LightClient] = []
        self._controlling: asyncio.Task[None] | None = None
        self._sent = 0

    async def play(self) -> Point:
        channel, sim = self._channel, self._sim
        await self._begin()
        subscribers = [sim.host(f"subscriber-{number}") for number in range(channel.subscribers)]
        publishers = [sim.host(f"publisher-{number}") for number in range(channel.publishers)]
        for host in subscribers:
            host.spawn(self._subscribe(host), name="subscribe")
        talking = [host.spawn(self._prepare(host), name="prepare") for host in publishers]
        await asyncio.sleep(channel.opening_s)
        await sim.until(self._is_everybody_live, OPENING_S)
        talkers = [await task for task in talking]
        await asyncio.sleep(channel.settle_s)
        began, busy_before = sim.now, self._busy_s()
        self._meter.began_at = began
        for host, client in zip(publishers, talkers, strict=True):
            host.spawn(self._talk(host, client, began), name="talk")
        await asyncio.sleep(channel.duration_s)
        busy_s = [after - before for after, before in zip(self._busy_s(), busy_before, strict=True)]
        await sim.until(lambda: self._meter.responses >= self._expected, DRAIN_S)
        return self._point(busy_s)

    async def _begin(self) -> None:
        """Make all servers members; set the replication of the channel, or start a planner."""
        channel, region = self._channel, self._region
        if channel.is_planned:
            await region.begin()
            self._controlling = region.control(Planner(planner_settings(channel)))
        else:
            await region.begin([Entry(TOPIC, tuple(region.hubs), channel.mode)])

    @property
    def _expected(self) -> int:
        return self._sent * self._channel.subscribers

    def _point(self, busy_s: list[float]) -> Point:
        channel, meter = self._channel, self._meter
        responses = meter.between(0.0, float("inf"))
        if self._controlling is not None and self._controlling.done():
            # The controller only ends with an error: raise it.
            self._controlling.result()
        entry = self._region.plan.entries.get(TOPIC)
        return Point(
            clients=max(channel.subscribers, channel.publishers),
            response_s_mean=float(responses.mean()) if len(responses) else float("nan"),
            response_s_p99=percentile(responses, 99),
            expected=self._expected,
            delivered=len(responses),
            cpu_ratio_max=max(busy_s) / channel.duration_s,
            missed=meter.lost,
            mode=Mode.SINGLE if entry is None else entry.mode,
            homes=1 if entry is None else len(entry.homes),
        )

    def _busy_s(self) -> list[float]:
        return [
            server.host.cpu.busy_s for server in self._region.hubs.values() if server.host.cpu is not None
        ]

    def _is_everybody_live(self) -> bool:
        return len(self._clients) == self._channel.subscribers and all(
            client.is_live(TOPIC) for client in self._clients
        )

    async def _subscribe(self, host: Host) -> None:
        await asyncio.sleep(self._comes_after_s(host, self._channel.subscribers))
        loop, meter, unpack = asyncio.get_running_loop(), self._meter, _STAMP.unpack_from

        def receive(topic: bytes, payload: bytes) -> None:
            now, (sent_at,) = loop.time(), unpack(payload)
            # Messages that only look up the home have no time stamp.
            if sent_at:
                meter.respond(now, now - sent_at)

        client = LightClient(self._region.endpoints, meter, receive, host.random)
        client.subscribe(TOPIC)
        self._clients.append(client)

    async def _prepare(self, host: Host) -> LightClient:
        """Connect and look up the channel's home with a publish; in a planned world, publish from then on."""
        await asyncio.sleep(self._comes_after_s(host, self._channel.publishers))
        client = LightClient(self._region.endpoints, self._meter, _ignore, host.random)
        client.publish(TOPIC, _STAMP.pack(0.0))
        if self._channel.is_planned:
            host.spawn(self._warm_up(client), name="warm up")
        return client

    def _comes_after_s(self, host: Host, of: int) -> float:
        """A random delay. In a planned world a single client connects at once, and several one by one."""
        if not self._channel.is_planned:
            return host.random.random() * OPENING_S / 2
        return host.random.random() * (PLANNED_OPENING_S - OPENING_S) if of > 1 else 0.0

    async def _warm_up(self, client: LightClient) -> None:
        """Publish without time stamps until the measurement starts."""
        padding = b"." * max(0, self._channel.payload_bytes - _STAMP.size)
        while not self._meter.began_at:
            client.publish(TOPIC, _STAMP.pack(0.0) + padding)
            await asyncio.sleep(1.0 / self._channel.messages_per_s)

    async def _talk(self, host: Host, client: LightClient, began: float) -> None:
        channel, loop = self._channel, asyncio.get_running_loop()
        interval_s = 1.0 / channel.messages_per_s
        padding = b"." * max(0, channel.payload_bytes - _STAMP.size)
        await asyncio.sleep(host.random.random() * interval_s)
        while loop.time() < began + channel.duration_s:
            client.publish(TOPIC, _STAMP.pack(loop.time()) + padding)
            self._sent += 1
            await asyncio.sleep(interval_s)


def _ignore(topic: bytes, payload: bytes) -> None:
    """A publisher receives no messages."""
