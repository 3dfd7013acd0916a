"""Move all topics of a region between two hubs and back, measured at their clients (ePulsar 5.7).

Hubs, store and handovers are real. The operator commits the plan in the cloud, at a given latency, and hubs read it
from the store. Every topic has one client, which publishes and subscribes to it. A client is down while it has no
confirmed subscription. A topic has moved when its new home numbers its messages; the latency to the cloud is added,
because the paper's load manager waits for the confirmation.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from equipoise.client.url import Endpoint
from equipoise.hub.cluster.settings import ClusterSettings
from equipoise.lab.experiments.cloud_region import CloudRegion, Command
from equipoise.lab.experiments.epulsar_workflows import WorkflowPlaces
from equipoise.lab.experiments.meter import Meter
from equipoise.lab.simulation import Simulation
from equipoise.lab.simulation.host import Host
from equipoise.lab.simulation.light_client.client import LightClient
from equipoise.lab.simulation.simulated_hub import PORT
from equipoise.lab.simulation.topology import Matrix
from equipoise.model import Entry

__all__ = ["PLACES", "Moved", "move_all", "wan"]

PLACES = WorkflowPlaces(cloud="cloud", brokers=("edge-a", "edge-b"), clients="clients")
HUBS = ("hub-a", "hub-b")
# One way, as in the paper's city (5.1.1): half of 30 ms between sites, half of 5 ms between client and local hub.
BETWEEN_S, ACCESS_S = 0.015, 0.0025
LAN_S = 0.000_25
INTERVAL_S = 0.050
PAYLOAD = bytes(100)
# Interval at which clients and hubs are checked.
LOOK_S = 0.002
# Start time, and pause after a move.
BEGIN_S, REST_S = 3.0, 2.0
PATIENCE_S = 120.0


def wan(one_way_s: float) -> Matrix:
    """Two edge sites, clients near the first, and a cloud at this latency."""
    edge_a, edge_b = PLACES.brokers
    ways = {
        (edge_a, edge_b): BETWEEN_S,
        (PLACES.clients, edge_a): ACCESS_S,
        (PLACES.clients, edge_b): BETWEEN_S + ACCESS_S,
        (PLACES.cloud, edge_a): one_way_s + LAN_S,
        (PLACES.cloud, edge_b): one_way_s + LAN_S,
        (PLACES.cloud, PLACES.clients): one_way_s + ACCESS_S + LAN_S,
    }
    return Matrix({**ways, **{(other, one): way for (one, other), way in ways.items()}})


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """One move of all topics."""

    # By client, the time without a confirmed subscription.
    down_s: tuple[float, ...]
    # The longest time between two messages of a topic, and from a publish to its delivery.
    gap_s: float
    response_s: float
    # Time from the commit until each topic has moved and the cloud can know it.
    until_s: tuple[float, ...]
    # Over the whole run.
    lost: int
    deliveries: int

    @property
    def each_s(self) -> float:
        """Time per topic."""
        return max(self.until_s) / len(self.until_s)


class MovingTalker:
    """One topic's client."""

    def __init__(self, host: Host, topic: bytes, meter: Meter) -> None:
        self.host, self.topic = host, topic
        self._meter = meter
        self._heard_at = 0.0
        self._sent: dict[int, float] = {}
        self._sequence = 0
        self._timer: asyncio.TimerHandle | None = None
        self.down_s = self.gap_s = self.response_s = 0.0

    async def begin(self, entry: Endpoint) -> None:
        self._loop = asyncio.get_running_loop()
        self._client = LightClient([entry], self._meter, self._hear, self.host.random)
        self._loop.call_later(self.host.random.random() * INTERVAL_S, self._talk)
        self._client.subscribe(self.topic)

    @property
    def is_live(self) -> bool:
        return self._client.is_live(self.topic)

    def look(self) -> None:
        """Called every `LOOK_S`."""
        if not self.is_live:
            self.down_s += LOOK_S

    def watch(self) -> None:
        """Start a measurement."""
        self.down_s = self.gap_s = self.response_s = 0.0

    async def fall_silent(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    @property
    def unanswered(self) -> int:
        return len(self._sent)

    def _talk(self) -> None:
        self._sequence += 1
        self._sent[self._sequence] = self._loop.time()
        self._client.publish(self.topic, b"%08d" % self._sequence + PAYLOAD)
        self._timer = self._loop.call_later(INTERVAL_S, self._talk)

    def _hear(self, topic: bytes, payload: bytes) -> None:
        now = self._loop.time()
        sent_at = self._sent.pop(int(payload[:8]), now)
        self.response_s = max(self.response_s, now - sent_at)
        if self._heard_at:
            self.gap_s = max(self.gap_s, now - self._heard_at)
        self._heard_at = now


def move_all(*, topics: int, executors: int, one_way_s: float, seed: int, rounds: int = 2) -> list[Moved]:
    """Move all topics in a new simulation."""
    with Simulation(seed=seed, topology=wan(one_way_s), steps_max=10**11) as sim:
        return sim.run(_move_all(sim, topics, executors, one_way_s, rounds))


async def _move_all(
    sim: Simulation, topics: int, executors: int, one_way_s: float, rounds: int
) -> list[Moved]:
    cluster = ClusterSettings(unsubscribe_delay_s=2.0, moves_max=executors, redirect_mode="eager")
    hubs = dict(zip(HUBS, PLACES.brokers, strict=True))
    region = CloudRegion(sim, Command(hubs=hubs, cloud=PLACES.cloud, cluster=cluster))
    names = [b"topic-%d" % number for number in range(topics)]
    await region.begin([Entry(name, (HUBS[0],)) for name in names])
    meter = Meter()
    talkers = [
        MovingTalker(sim.host(f"client-{at}", place=PLACES.clients), name, meter)
        for at, name in enumerate(names)
    ]
    for talker in talkers:
        talker.host.spawn(talker.begin(Endpoint(HUBS[0], PORT)), name="talk")
    await asyncio.sleep(BEGIN_S)
    assert all(talker.is_live for talker in talkers), "all clients are subscribed before the move"
    found = []
    for turn in range(rounds):
        until_s = await _move(sim, region, talkers, HUBS[(turn + 1) % 2])
        found.append((until_s, [(one.down_s, one.gap_s, one.response_s) for one in talkers]))
    for talker in talkers:
        talker.host.spawn(talker.fall_silent(), name="hush")
    await asyncio.sleep(REST_S)
    meter.unanswered = sum(talker.unanswered for talker in talkers)
    return [
        Moved(
            down_s=tuple(down for down, _, _ in seen),
            gap_s=max(gap for _, gap, _ in seen),
            response_s=max(response for _, _, response in seen),
            until_s=tuple(until + one_way_s for until in until_s),
            lost=meter.lost,
            deliveries=meter.deliveries,
        )
        for until_s, seen in found
    ]


async def _move(
    sim: Simulation, region: CloudRegion, talkers: Sequence[MovingTalker], target: str
) -> list[float]:
    """Move all topics and wait for their clients. Returns the times from the commit until each topic was moved."""
    for talker in talkers:
        talker.watch()
    began, moved = sim.now, dict[bytes, float]()
    region.move([Entry(talker.topic, (target,)) for talker in talkers])
    while len(moved) < len(talkers) or sim.now < began + max(moved.values()) + REST_S:
        await asyncio.sleep(LOOK_S)
        for talker in talkers:
            talker.look()
            if talker.topic not in moved and _is_home(region, target, talker.topic):
                moved[talker.topic] = sim.now - began
        assert sim.now - began < PATIENCE_S, f"{len(talkers) - len(moved)} topics have not moved"
    return list(moved.values())


def _is_home(region: CloudRegion, hub: str, name: bytes) -> bool:
    """Whether the hub numbers the topic's messages."""
    topic = region.hub(hub).core.index.topics.get(name)
    return topic is not None and (topic.stream is None or topic.stream.state.is_home)
