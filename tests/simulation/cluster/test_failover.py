"""A hanging home: its peers resend their messages to the next home, once and in order, and report gaps."""

from __future__ import annotations

import asyncio
import random

import equipoise
from equipoise.hub.cluster.failover import Failover
from equipoise.hub.cluster.link.link import OutLink
from equipoise.lab.simulation.ablation import replaced
from equipoise.lab.simulation.simulated_hub import PORT
from equipoise.lab.workload.endpoint import hurried

from .test_smart_clients import Story, tell

# Messages a second, published at h1 to a topic whose home is h2.
RATE = 100
# How long h2 hangs before it is declared dead, in seconds: several times what a link needs to notice.
HANGS_S = 4.0


def _at_h1(number: int) -> equipoise.Bus:
    """A client that stays at its hub, as plain Redis clients do."""
    return equipoise.connect(
        f"equipoise://h1:{PORT}", settings=hurried(routing=False), rng=random.Random(number)
    )


async def _hang(hubs: Story) -> list[str]:
    """What a subscriber of h1 gets of a publisher of h1 while t's home hangs: payloads, and gaps in brackets."""
    world, seen = hubs.world, list[str]()
    world.move("t", "h2")
    count = int(RATE * (HANGS_S + 2.0))

    async def listen(subscription: equipoise.Subscription) -> None:
        async for event in subscription:
            seen.append(f"<{event.missed}>" if isinstance(event, equipoise.Gap) else event.text)
            if seen[-1] == str(count):
                return

    async with _at_h1(98) as publisher, _at_h1(99) as bus, bus.subscribe("t") as subscription:
        await asyncio.sleep(1.0)
        listening = asyncio.create_task(listen(subscription))
        for n in range(1, count + 1):
            if n == RATE:
                world.hubs["h2"].host.pause()
            if n == RATE * (1 + HANGS_S):
                world.directory.expire("h2")
            publisher.publish_nowait("t", str(n))
            await asyncio.sleep(1 / RATE)
        await publisher.flush()
        await asyncio.wait_for(listening, 20.0)
    world.hubs["h2"].host.thaw()
    return seen


def _missing(seen: list[str]) -> int:
    got = [int(text) for text in seen if not text.startswith("<")]
    assert got == sorted(set(got)), "once, and in order"
    assert "<None>" in seen, "what died with the home is told"
    return got[-1] - len(got)


def test_messages_to_a_hanging_home_wait_at_their_hub_and_go_to_the_next_home() -> None:
    """
    1. h2, where t lives, hangs: its connections stay open, and it answers nothing;
    2. h1 notices within 0.3 s, as links are set here, and holds what its clients publish;
    3. seconds later h2 is declared dead, and t opens at another hub;
    4. what h1 had sent into the silence, and no hub has seen, goes there too: nothing is missing of four seconds.
    """

    async def story(hubs: Story, bus: equipoise.Bus) -> None:
        assert _missing(await _hang(hubs)) == 0

    tell(3, story)


def test_without_a_resend_messages_to_a_silent_home_are_lost() -> None:
    """Until the link notices, or for as long as the store takes if links did not."""
    missing: list[int] = []

    async def story(hubs: Story, bus: equipoise.Bus) -> None:
        with replaced(Failover, "may_resend", lambda self, stream: False):
            missing.append(_missing(await _hang(hubs)))

    tell(3, story)
    with replaced(OutLink, "hold", lambda link: None):
        tell(3, story)
    assert 0 < missing[0] <= 0.4 * RATE
    assert missing[1] > 0.6 * RATE
