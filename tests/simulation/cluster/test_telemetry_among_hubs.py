"""Sums of telemetry over hubs count every message once, through forwarding and moves."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace
from random import Random

import pytest

from equipoise.lab.scenarios import Dialect, Workload
from equipoise.lab.scenarios.cluster_clients import CROWD
from equipoise.lab.simulation import Simulation
from equipoise.lab.simulation.cluster.faults import play
from equipoise.lab.simulation.cluster.world import ClusterWorld
from equipoise.lab.simulation.link import LinkSpec
from equipoise.lab.simulation.topology import Lan
from equipoise.lab.workload.history import History, PublishOutcome, Received
from equipoise.model import Mode
from equipoise.telemetry import RecordKind, Role
from equipoise.telemetry.arrow import END, batch, schema_message
from simulation.cluster.worlds import CALM
from telemetry.records import read_stream

SEEDS = range(6)
TOPICS = ("a", "b", "c")
# Subscribers that have their messages from the hub they are connected to and from no other, and publishers.
PLAIN = tuple(
    replace(client, subscribes=()) if client.publishes else replace(client, dialect=Dialect.RESP3)
    for client in CROWD.clients
)


async def play_and_settle(world: ClusterWorld) -> None:
    """Then the publishers are gone, what they sent has arrived, and all that was counted is recorded."""
    await play(world)
    for client in world.scenario.workload.clients:
        if client.publishes:
            world.sim.host(client.name).crash()
    await asyncio.sleep(5.0)
    for node in world.hubs.values():
        assert node.hub is not None and node.hub.core.metering.topics_active == 0


def sums_of(world: ClusterWorld) -> dict[bytes, Counter[str]]:
    """Over all hubs and windows, by topic; and how often the hub had which role."""
    sums: dict[bytes, Counter[str]] = {}
    for node in world.hubs.values():
        assert node.hub is not None
        ring = node.hub.core.metering.ring
        parts = [
            block.part(start, block.count) for block, start in ring.read(0) if block.kind is RecordKind.TOPIC
        ]
        stream = schema_message(ring.filled) + batch(node.name, ring.incarnation, parts, ring.filled) + END
        for record in read_stream(stream):
            numbers = {name: value for name, value in record.items() if isinstance(value, int)}
            sums.setdefault(record["topic"], Counter()).update({**numbers, record["role"]: 1})
    return sums


@pytest.mark.parametrize("mode", [None, Mode.ALL_PUBLISHERS, Mode.ALL_SUBSCRIBERS])
def test_publications_are_counted_once_and_deliveries_where_they_are_made(mode: Mode | None) -> None:
    scenario = replace(
        CALM,
        workload=Workload(clients=PLAIN),
        moves=(2, 4),
        replications=(0, 0) if mode is None else (2, 3),
        modes=() if mode is None else (mode,),
    )
    total: Counter[str] = Counter()
    for seed in SEEDS:
        draw = Random(f"network {seed}")
        topology = Lan(LinkSpec(latency_s=0.000_2 + draw.random() * 0.01))
        with Simulation(seed=seed, topology=topology, time_s_max=1_000.0) as sim:
            world = ClusterWorld(sim, scenario, History())
            sim.run(play_and_settle(world))
            sums = sums_of(world)
        for topic in TOPICS:
            sent = [
                m for (_, name), messages in world.history.sent.items() if name == topic for m in messages
            ]
            acknowledged = sum(message.outcome is PublishOutcome.ACKNOWLEDGED for message in sent)
            received = sum(
                isinstance(event, Received) and event.topic == topic
                for track in world.history.tracks
                for event in track.events
            )
            found = sums[topic.encode()]
            assert 5 < acknowledged <= found["publications"] <= len(sent), f"seed {seed} {topic}"
            assert 10 < received == found["deliveries"], f"seed {seed} {topic}"
            assert found["drops"] == found["cuts"] == 0
            total.update(found)
    assert total["ingress_messages"] > 100 and total["egress_messages"] > 100
    assert total[Role.HOME] > 10 and total[Role.RELAY] > 10
    assert (total[Role.LANE] > 3) == (mode is Mode.ALL_SUBSCRIBERS)
