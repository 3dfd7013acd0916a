"""Failures found by seeds, as numbered steps."""

from __future__ import annotations

import asyncio
import random

import pytest

import equipoise
from equipoise.errors import UncertainError
from equipoise.hub import Hub, HubSettings
from equipoise.lab.simulation import Simulation

HUB = HubSettings(host="0.0.0.0", insecure=True)
SETTINGS = equipoise.ClientSettings(
    ping_interval_s=0.5, request_timeout_s=2.0, connect_timeout_s=1.0, reconnect_max_s=0.2
)


async def start_hub(sim: Simulation) -> None:
    host = sim.host("hub")
    await host.spawn(Hub(HUB, wall_clock=host.clock.time, rng=random.Random(3)).start())


def test_messages_of_a_connection_given_up_are_not_published_after_newer_ones() -> None:
    """Found by seed 52 of hub-small.

    1. A publisher's link to the hub is cut both ways, with a message on its way.
    2. The publisher gets no reply, closes the connection, and reports the message as uncertain.
    3. The link heals. The publisher reconnects and publishes another message, which is acknowledged.
    4. The network brings the first message to the hub after all, over the old connection.
    """

    async def publish(sim: Simulation) -> None:
        async with equipoise.connect("equipoise://hub:6399", settings=SETTINGS, rng=random.Random(1)) as bus:
            await bus.publish("t", "before")
            sim.cut("hub", "ann")
            try:
                await bus.publish("t", "uncertain")
            except UncertainError:
                pass
            else:
                raise AssertionError("a cut link cannot bring a receipt")
            sim.heal("hub", "ann")
            await bus.publish("t", "after")

    async def subscribe(seen: list[str], ready: asyncio.Event) -> None:
        async with (
            equipoise.connect("equipoise://hub:6399", settings=SETTINGS, rng=random.Random(2)) as bus,
            bus.subscribe("t") as subscription,
        ):
            ready.set()
            async for message in subscription.messages():
                seen.append(message.text)

    async def main(sim: Simulation) -> list[str]:
        await start_hub(sim)
        seen: list[str] = []
        ready = asyncio.Event()
        sim.host("bob").spawn(subscribe(seen, ready))
        await ready.wait()
        await sim.host("ann").spawn(publish(sim))
        # Longer than the network tries to bring anything.
        await asyncio.sleep(10.0)
        return seen

    for seed in range(5):
        with Simulation(seed=seed) as sim:
            seen = sim.run(main(sim))
        assert seen in (["before", "after"], ["before", "uncertain", "after"])


@pytest.mark.parametrize("is_hub_late", [False, True])
def test_a_confirmation_that_comes_with_the_timeout_counts(is_hub_late: bool) -> None:
    """Found by seeds 22 and 1291 of hub-pauses.

    1. A client subscribes and its machine pauses.
    2. The hub confirms; the client's timeout expires; both happen during the pause, in either order.
    3. The client resumes and finds both events.
    """

    async def subscribe(asked: asyncio.Event) -> str:
        async with equipoise.connect("equipoise://hub:6399", settings=SETTINGS, rng=random.Random(2)) as bus:
            subscription = bus.subscribe("t")
            asyncio.get_running_loop().call_later(0, asked.set)
            async with subscription:
                await bus.publish("t", "here")
                async for message in subscription.messages():
                    return message.text
        return "nothing"

    async def main(sim: Simulation) -> str:
        await start_hub(sim)
        asked = asyncio.Event()
        task = sim.host("ann").spawn(subscribe(asked))
        await asked.wait()
        sim.host("ann").pause()
        if is_hub_late:
            sim.host("hub").pause()
        await asyncio.sleep(SETTINGS.request_timeout_s + 0.1)
        sim.host("hub").thaw()
        await asyncio.sleep(0.1)
        sim.host("ann").thaw()
        return await task

    with Simulation() as sim:
        assert sim.run(main(sim)) == "here"


def test_a_receipt_that_comes_with_the_timeout_counts() -> None:
    """The same for a publish: it is not reported as uncertain if the receipt has arrived."""

    async def publish(asked: asyncio.Event) -> int:
        async with equipoise.connect("equipoise://hub:6399", settings=SETTINGS, rng=random.Random(2)) as bus:
            asyncio.get_running_loop().call_later(0, asked.set)
            return (await bus.publish("t", "here")).receivers

    async def main(sim: Simulation) -> int:
        await start_hub(sim)
        asked = asyncio.Event()
        task = sim.host("ann").spawn(publish(asked))
        await asked.wait()
        sim.host("ann").pause()
        await asyncio.sleep(SETTINGS.request_timeout_s + 0.5)
        sim.host("ann").thaw()
        return await task

    with Simulation() as sim:
        assert sim.run(main(sim)) == 0
