"""The client with its real time-outs, in virtual time: minutes of silence pass at once."""

from __future__ import annotations

import asyncio
import random

import equipoise
from equipoise import Gap, GapReason, Message
from equipoise.hub import Hub, HubSettings
from equipoise.lab.simulation import Simulation
from support.polling import until

PORT = 6399
URL = f"equipoise://hub:{PORT}"


async def serve(sim: Simulation) -> None:
    hub = Hub(HubSettings(name="h", host="hub", port=PORT, insecure=True), wall_clock=lambda: 1e9 + sim.now)
    await hub.start()


def run_cut_off_subscriber(seed: int) -> tuple[list[equipoise.Event], dict[str, float]]:
    """One subscriber is cut off for five minutes while another client keeps publishing."""
    events: list[equipoise.Event] = []
    times: dict[str, float] = {}

    async def subscribe(sim: Simulation) -> None:
        async with (
            equipoise.connect(URL, rng=random.Random(f"subscriber {seed}")) as bus,
            bus.subscribe("a") as a,
        ):
            asyncio.get_running_loop().create_task(watch(sim, bus), name="watch")
            async for event in a:
                events.append(event)

    async def watch(sim: Simulation, bus: equipoise.Bus) -> None:
        times["subscribed"] = sim.now
        await until(lambda: not bus.is_connected, 1_000, interval_s=0.1)
        times["noticed"] = sim.now
        await until(lambda: bus.is_connected, 1_000, interval_s=0.1)
        times["back"] = sim.now

    async def main(sim: Simulation) -> None:
        sim.host("hub").spawn(serve(sim))
        sim.host("cut-off").spawn(subscribe(sim))
        await until(lambda: "subscribed" in times, 1_000, interval_s=0.1)
        async with equipoise.connect(URL, rng=random.Random(f"publisher {seed}")) as bus:
            await bus.publish("a", "before")
            await until(lambda: len(events) == 1, 1_000, interval_s=0.1)
            sim.cut("hub", "cut-off")
            times["cut"] = sim.now
            for i in range(10):
                await asyncio.sleep(30)
                await bus.publish("a", str(i))
            sim.heal("hub", "cut-off")
            times["healed"] = sim.now
            await until(lambda: "back" in times, 1_000, interval_s=0.1)
            await bus.publish("a", "after")
            await until(lambda: len(events) >= 3, 1_000, interval_s=0.1)

    with Simulation(seed=seed) as sim:
        sim.run(main(sim))
    return events, times


def test_a_subscriber_that_is_cut_off_detects_it_by_pings_reconnects_and_counts_missed_messages() -> None:
    events, times = run_cut_off_subscriber(1)
    assert [event.text if isinstance(event, Message) else event for event in events] == [
        "before",
        Gap("a", 10, GapReason.RECONNECTED),
        "after",
    ]
    # Two pings, 30 s apart, then 30 s for the last answer; the cut falls somewhere before the first.
    assert 60 <= times["noticed"] - times["cut"] <= 91
    # One attempt may still be running into its time-out, then comes at most the longest delay.
    assert times["back"] - times["healed"] <= 5 + 5 + 1


def test_the_same_seed_gives_the_same_run() -> None:
    assert run_cut_off_subscriber(2) == run_cut_off_subscriber(2)
