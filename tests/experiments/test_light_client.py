"""The light client: follows redirects, loses no message on a move, and counts losses."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from equipoise.lab.simulation.light_client.client import LightClient
from equipoise.lab.simulation.light_client.link import LightSubscription
from equipoise.model import Entry, Member, Mode, Plan
from experiments.small_worlds import SmallWorld, play

TOPIC = b"t"
HUBS = ("hub-1", "hub-2", "hub-3")


def plan(homes: Sequence[str], mode: Mode = Mode.SINGLE) -> Plan:
    return Plan.of(members=[Member(hub) for hub in HUBS], entries=[Entry(TOPIC, tuple(homes), mode)])


class Talk:
    """One publisher and one subscriber, numbered messages every 20 ms."""

    def __init__(self, world: SmallWorld) -> None:
        self.world = world
        self.heard: list[int] = []
        self.sent = 0

    async def begin(self) -> None:
        self.ear = await self.world.client("ear", lambda topic, payload: self.heard.append(int(payload)))
        self.mouth = await self.world.client("mouth", lambda topic, payload: None)
        await self.world.on("ear", self.ear.subscribe, TOPIC)
        assert await self.world.sim.until(lambda: self.ear.is_live(TOPIC), 10.0)

    async def say(self, count: int) -> None:
        for _ in range(count):
            await self.world.on("mouth", self.mouth.publish, TOPIC, b"%d" % self.sent)
            self.sent += 1
            await asyncio.sleep(0.02)

    async def finish(self) -> None:
        assert await self.world.sim.until(lambda: len(self.heard) >= self.sent, 30.0)
        await asyncio.sleep(3.0)

    def connected(self, client: LightClient) -> set[str]:
        return {hub.host for hub in client._links}


@pytest.mark.parametrize("seed", range(8))
def test_a_client_follows_its_topic_from_hub_to_hub_and_misses_nothing(seed: int) -> None:
    async def story(world: SmallWorld) -> None:
        await world.begin()
        world.region.commit(plan(["hub-1"]))
        talk = Talk(world)
        await talk.begin()
        for hub in ("hub-2", "hub-3", "hub-1", "hub-2"):
            await talk.say(40)
            world.region.commit(plan([hub]))
        await talk.say(40)
        # A hub that has told a client something does not say it again for ten seconds.
        await asyncio.sleep(11.0)
        await talk.say(2)
        await talk.finish()
        assert talk.heard == list(range(202))
        assert world.meter.lost == 0
        assert [link.hub.host for link in talk.ear._subscribed[TOPIC].links] == ["hub-2"]
        line = talk.mouth._lines[TOPIC]
        assert line.hub is not None
        assert line.hub.host == "hub-2"

    play(story, seed=seed)


@pytest.mark.parametrize("mode", [Mode.ALL_PUBLISHERS, Mode.ALL_SUBSCRIBERS])
@pytest.mark.parametrize("seed", range(5))
def test_a_topic_that_becomes_replicated_and_single_again_loses_nothing(mode: Mode, seed: int) -> None:
    async def story(world: SmallWorld) -> None:
        await world.begin()
        world.region.commit(plan(["hub-1"]))
        talk = Talk(world)
        await talk.begin()
        await talk.say(40)
        world.region.commit(plan(HUBS, mode))
        await talk.say(100)
        world.region.commit(plan(["hub-3"]))
        await talk.say(60)
        await talk.finish()
        assert sorted(talk.heard) == list(range(200))
        assert world.meter.lost == 0

    play(story, seed=seed)


@pytest.mark.parametrize("seed", range(3))
def test_a_topic_that_gets_a_third_home_comes_from_each_home_once(seed: int) -> None:
    """1. A subscriber is spread over two homes. 2. A third one begins a lane: both would bring it, too, for ever."""

    async def story(world: SmallWorld) -> None:
        await world.begin()
        world.region.commit(plan(["hub-1"]))
        talk = Talk(world)
        await talk.begin()
        for homes in (HUBS[:2], HUBS):
            await talk.say(40)
            world.region.commit(plan(homes, Mode.ALL_SUBSCRIBERS))
        await talk.say(100)
        await talk.finish()
        assert sorted(talk.heard) == list(range(180))
        assert world.meter.lost == 0
        streams = talk.ear._subscribed[TOPIC].merge.streams
        found = {
            name: [source.link.hub.host for source in stream.intakes if isinstance(source, LightSubscription)]
            for name, stream in streams.items()
        }
        assert found == {b"": ["hub-1"], b"hub-2": ["hub-2"], b"hub-3": ["hub-3"]}

    play(story, seed=seed)


def test_a_client_that_resubscribes_at_once_counts_no_loss() -> None:
    """1. A client leaves a topic and returns before the hub has heard of it. 2. What it was sent before is not news."""

    async def story(world: SmallWorld) -> None:
        await world.begin()
        talk = Talk(world)
        await talk.begin()
        for _ in range(20):
            await talk.say(3)
            await world.on("ear", talk.ear.unsubscribe, TOPIC)
            await world.on("ear", talk.ear.subscribe, TOPIC)
        assert await world.sim.until(lambda: talk.ear.is_live(TOPIC), 10.0)
        await talk.say(3)
        assert await world.sim.until(lambda: talk.heard[-1:] == [62], 10.0)
        assert talk.heard == sorted(set(talk.heard))
        assert world.meter.lost == 0

    play(story)


def test_a_hub_that_cuts_its_clients_is_counted_and_the_client_comes_back() -> None:
    async def story(world: SmallWorld) -> None:
        await world.begin()
        world.region.commit(plan(["hub-1"]))
        talk = Talk(world)
        await talk.begin()
        await talk.say(20)
        await asyncio.sleep(1.0)
        world.sim.reset_connections("hub-1", "ear")
        await talk.say(200)
        await asyncio.sleep(5.0)
        assert world.meter.cuts == 1
        assert talk.heard[-1] == 219
        # Exactly what came while it was away is missing, and it knows how much that was.
        assert world.meter.missed == 220 - len(talk.heard) > 0

    play(story)


def test_unused_connections_are_closed_after_a_while() -> None:
    async def story(world: SmallWorld) -> None:
        await world.begin()
        world.region.commit(plan(["hub-1"]))
        talk = Talk(world)
        await talk.begin()
        await talk.say(5)
        world.region.commit(plan(["hub-2"]))
        await talk.say(5)
        await asyncio.sleep(12.0)
        await world.on("ear", talk.ear.subscribe, b"other")
        await world.on("ear", talk.ear.unsubscribe, b"other")
        assert "hub-1" not in talk.connected(talk.ear)

    play(story)
