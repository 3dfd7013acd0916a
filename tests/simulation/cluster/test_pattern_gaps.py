"""Smart pattern subscribers receive gaps for the death of a hub, as subscribers by name do."""

from __future__ import annotations

import asyncio
import random

import equipoise
from equipoise.lab.simulation.simulated_hub import PORT
from equipoise.lab.workload.endpoint import hurried

from .test_smart_clients import Story, tell


async def _lose_the_home(hubs: Story, *, known: int, lost: int, topic: str = "t") -> None:
    """Publish at h2, the home, first so that h1 gets it, then so that h2 dies with what it has acknowledged."""
    world = hubs.world
    url = f"equipoise://h2:{PORT}"
    async with equipoise.connect(url, settings=hurried(), rng=random.Random(99)) as speaker:
        for n in range(known):
            await speaker.publish(topic, f"known {n}")
        await asyncio.sleep(0.5)
        world.sim.cut("h2", "h1")
        for n in range(lost):
            await speaker.publish(topic, f"lost {n}")
        world.hubs["h2"].crash(silent=False)
    world.directory.expire("h2")
    world.sim.heal("h2", "h1")


async def _events_until(subscription: equipoise.Subscription, text: str) -> list[str]:
    """What the subscription yields up to this message: payloads, and gaps in angle brackets."""
    seen: list[str] = []
    while not seen or seen[-1] != text:
        event = await anext(subscription)
        seen.append(f"<{event.missed}>" if isinstance(event, equipoise.Gap) else event.text)
    return seen


def test_a_pattern_subscriber_receives_a_gap_when_a_home_dies_with_messages() -> None:
    async def story(hubs: Story, bus: equipoise.Bus) -> None:
        hubs.world.move("t", "h2")
        async with bus.psubscribe("t*") as by_pattern, bus.subscribe("t") as by_name:
            await _lose_the_home(hubs, known=3, lost=50)
            await asyncio.sleep(3.0)
            await bus.publish("t", "after")
            told = ["known 0", "known 1", "known 2", "<None>", "after"]
            assert await _events_until(by_pattern, "after") == told
            assert "<None>" in await _events_until(by_name, "after")
        hubs.world.hubs["h2"].start()

    tell(6, story)


def test_a_pattern_subscriber_receives_gaps_without_new_messages_and_for_unseen_topics() -> None:
    async def story(hubs: Story, bus: equipoise.Bus) -> None:
        hubs.world.move("t.new", "h2")
        async with bus.psubscribe("t*") as by_pattern:
            await _lose_the_home(hubs, known=0, lost=5, topic="t.new")
            event = await asyncio.wait_for(anext(by_pattern), 10.0)
            assert event == equipoise.Gap(None, None, equipoise.GapReason.HUB_LOST, "t*")
        hubs.world.hubs["h2"].start()

    tell(7, story)


def test_a_move_is_no_gap_for_a_pattern() -> None:
    async def story(hubs: Story, bus: equipoise.Bus) -> None:
        async with bus.psubscribe("t*") as by_pattern:
            for home in ("h2", "h3", "h1"):
                hubs.world.move("t", home)
                await asyncio.sleep(1.0)
                await bus.publish("t", home)
            assert await _events_until(by_pattern, "h1") == ["h2", "h3", "h1"]

    tell(9, story)


def test_queued_messages_of_a_dead_home_precede_the_gap() -> None:
    """
    1. t moves from h3 to h2; h1 is cut from h3, so what h2 sends waits at h1 for the rest of h3's epoch;
    2. h2 dies with a message that h1 never gets, and h1 tells its subscriber that messages may be missing;
    3. h3 is back: what waited comes, and only behind that is what was lost.
    """

    async def story(hubs: Story, bus: equipoise.Bus) -> None:
        world = hubs.world
        world.move("t", "h3")
        async with (
            bus.psubscribe("t*") as by_pattern,
            equipoise.connect(f"equipoise://h3:{PORT}", settings=hurried(), rng=random.Random(98)) as at_h3,
            equipoise.connect(f"equipoise://h2:{PORT}", settings=hurried(), rng=random.Random(97)) as at_h2,
        ):
            await at_h3.publish("t", "a")
            assert await _events_until(by_pattern, "a") == ["a"]
            world.sim.cut("h3", "h1")
            await at_h3.publish("t", "b")
            world.move("t", "h2")
            await asyncio.sleep(1.0)
            await at_h2.publish("t", "c")
            await asyncio.sleep(0.5)
            world.sim.cut("h2", "h1")
            await at_h2.publish("t", "lost")
            world.hubs["h2"].crash(silent=False)
            world.directory.expire("h2")
            world.sim.heal("h2", "h1")
            await asyncio.sleep(0.5)
            world.sim.heal("h3", "h1")
            assert await _events_until(by_pattern, "c") == ["<None>", "b", "c"]
            assert await anext(by_pattern) == equipoise.Gap("t", None, equipoise.GapReason.HUB_LOST, "t*")
        world.hubs["h2"].start()

    tell(10, story)
