"""A hub that shuts down cleanly loses no message, and no subscriber receives a gap."""

from __future__ import annotations

import asyncio
import random

import pytest

import equipoise
from equipoise.hub.cluster.leaving import Leaving
from equipoise.lab.simulation.ablation import replaced
from equipoise.lab.simulation.cluster.directory import Directory
from equipoise.lab.simulation.simulated_hub import PORT
from equipoise.lab.workload.endpoint import hurried

from .test_smart_clients import Story, tell


def _at(hub: str, number: int) -> equipoise.Bus:
    """A client that stays at its hub, as plain Redis clients do."""
    return equipoise.connect(
        f"equipoise://{hub}:{PORT}", settings=hurried(routing=False), rng=random.Random(number)
    )


async def _stop_a_feeder(hubs: Story) -> list[str]:
    """What a subscriber by name and one by pattern see of messages through h3 to h2, while h3 stops."""
    world, seen = hubs.world, list[str]()

    async def listen(subscription: equipoise.Subscription) -> None:
        async for event in subscription:
            seen.append(f"<{event.missed}>" if isinstance(event, equipoise.Gap) else event.text)
            if seen[-1] == "last":
                return

    world.move("t", "h2")
    async with _at("h1", 98) as bus, bus.subscribe("t") as by_name, bus.psubscribe("t*") as by_pattern:
        await asyncio.sleep(1.0)
        listening = [asyncio.create_task(listen(one)) for one in (by_name, by_pattern)]
        async with _at("h3", 99) as publisher:
            for n in range(50):
                publisher.publish_nowait("t", str(n))
            await publisher.flush()
            node = world.hubs["h3"]
            await node.host.spawn(node.stop(), name="stop")
        world.directory.expire("h3")
        await asyncio.sleep(1.0)
        await bus.publish("t", "last")
        await asyncio.wait_for(asyncio.gather(*listening), 20.0)
    node.host.crash(silent=False)
    node.start()
    return seen


def test_messages_through_a_stopping_hub_arrive_without_a_gap() -> None:
    async def story(hubs: Story, bus: equipoise.Bus) -> None:
        seen = await _stop_a_feeder(hubs)
        assert sorted(seen) == sorted([str(n) for n in range(50)] * 2 + ["last"] * 2)

    tell(3, story)


def test_a_hub_that_stops_without_a_farewell_counts_as_dead() -> None:
    async def story(hubs: Story, bus: equipoise.Bus) -> None:
        with replaced(Leaving, "finish", lambda leaving: None):
            assert "<None>" in await _stop_a_feeder(hubs)

    tell(3, story)


async def _stop_with_a_message_under_way(hubs: Story, *, is_passed_on: bool) -> list[str]:
    """What a subscriber by pattern at h1 sees when h3 stops while a message through it cannot get to h2, where t lives.

    Either h3 cannot reach h2, or the message `is_passed_on`: h3 has not heard that t has moved from h1 to h2, and h1,
    which it sends the message to, cannot reach h2. Gaps are in angle brackets, with their topic; * is any.
    """
    world, seen = hubs.world, list[str]()
    assert isinstance(world.directory, Directory)
    cut_off = "h1" if is_passed_on else "h3"
    if not is_passed_on:
        world.move("t", "h2")
    async with _at("h1", 98) as bus, bus.psubscribe("t*") as by_pattern:
        await asyncio.sleep(1.0)
        async with _at("h3", 99) as publisher:
            await publisher.publish("t", "first")
            if is_passed_on:
                world.directory.due_at["h3"] = world.sim.now + 10.0
                world.move("t", "h2")
                await asyncio.sleep(1.0)
            world.sim.cut(cut_off, "h2")
            publisher.publish_nowait("t", "lost")
            await publisher.flush()
            node = world.hubs["h3"]
            await node.host.spawn(node.stop(), name="stop")
        world.directory.expire("h3")
        await asyncio.sleep(0.5)
        world.sim.heal(cut_off, "h2")
        await asyncio.sleep(1.0)
        await bus.publish("t", "last")
        while "last" not in seen:
            event = await asyncio.wait_for(anext(by_pattern), 20.0)
            seen.append(
                f"<{event.topic or '*'} {event.missed}>" if isinstance(event, equipoise.Gap) else event.text
            )
    node.host.crash(silent=False)
    node.start()
    return seen


@pytest.mark.parametrize("is_passed_on", [False, True], ids=["cut-off", "passed-on"])
def test_a_hub_that_stops_with_messages_in_flight_counts_as_dead(*, is_passed_on: bool) -> None:
    """
    1. h3 has acknowledged a message to t, which lives at h2, and it cannot get there;
    2. h3 stops, and waits in vain until nothing is under way;
    3. it has not said that nothing is: subscribers by pattern are told of a gap when their hub hears of the death, and
       of one in t where the home does, behind the last message that may have come through h3.
    """

    async def story(hubs: Story, bus: equipoise.Bus) -> None:
        seen = await _stop_with_a_message_under_way(hubs, is_passed_on=is_passed_on)
        assert seen == ["first", "<* None>", "<t None>", "last"]

    tell(3, story)


def test_a_hub_that_stops_without_waiting_loses_a_message() -> None:
    """All hear that nothing is under way, while h1 still has the message; the home drops what a dead hub sent."""

    async def story(hubs: Story, bus: equipoise.Bus) -> None:
        with replaced(Leaving, "is_over", True):
            assert await _stop_with_a_message_under_way(hubs, is_passed_on=True) == ["first", "last"]

    tell(3, story)


def test_a_home_without_the_farewell_reports_a_gap_even_if_others_received_it() -> None:
    """h3 does not wait: h1 hears its last word, h2 does not, and the message is lost between the two."""

    async def story(hubs: Story, bus: equipoise.Bus) -> None:
        with replaced(Leaving, "is_over", True):
            seen = await _stop_with_a_message_under_way(hubs, is_passed_on=False)
            assert seen == ["first", "<t None>", "last"]

    tell(3, story)
