"""Durable subscribers of one log: the real client, in processes that crash and restart.

Each subscriber acknowledges most entries, some of them late, one by one or up to an entry. It rejects some entries, and
poison messages always. The track records the deliveries and the confirmed acknowledgements.
"""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING

import equipoise
from equipoise.client import DurableMessage, DurableSubscription, Gap
from equipoise.errors import EquipoiseError
from equipoise.lab.simulation.durable.log_client import SMART_SETTINGS, LogClient
from equipoise.lab.simulation.simulated_hub import PORT
from equipoise.lab.workload.log_history import DurableDelivery, LogTrack, SubscriberTrack

if TYPE_CHECKING:
    from equipoise.lab.simulation.durable.logs_world import LogsWorld

__all__ = ["DEAD_LETTER", "DELIVERIES_MAX", "Subscribers", "is_poison"]

GROUP = "workers"
DEAD_LETTER = "dead"
DELIVERIES_MAX = 3
_ACK_S = 1.5


def is_poison(value: bytes) -> bool:
    """Whether every subscriber rejects the message."""
    return value.endswith(b"7")


class Subscribers:
    """The durable subscribers of one run."""

    def __init__(self, world: LogsWorld, track: LogTrack) -> None:
        self._world = world
        self._scenario = world.scenario
        self._sim = world.sim
        self._random = world.random
        self._track = track
        self._names = [f"s{number}" for number in range(1, self._scenario.subscribers + 1)]
        self._lives = dict.fromkeys(self._names, 0)
        self._is_over = False
        for name in self._names:
            # Members of a group share the messages and one track.
            self._story(name)

    def _story(self, name: str) -> SubscriberTrack:
        key = GROUP if self._scenario.is_group else name
        story = SubscriberTrack(key, is_shared=self._scenario.is_group)
        return self._track.subscribers.setdefault(key, story)

    async def register(self) -> None:
        """Create the group of each subscriber."""
        for name in self._names:
            reply: object = None
            while reply not in (b"OK", "BUSYGROUP"):
                connection = LogClient(lambda: self._world.names[0])
                words = ("XGROUP", "CREATE", self._track.topic, name, "0", "MKSTREAM")
                reply = next(iter(await connection.ask(words)), None)
                reply = "BUSYGROUP" if "BUSYGROUP" in str(reply) else reply
                connection.close()

    def start(self) -> None:
        for name in self._names:
            self._boot(name)

    def _boot(self, name: str) -> None:
        host = self._sim.host(f"host-{name}")
        if not host.is_up:
            host.restart()
        self._lives[name] += 1
        story = self._story(name)
        story.born[name, self._lives[name]] = len(story.got)
        host.spawn(self._live(name, self._lives[name], host.random), name=name)

    async def crash(self) -> None:
        """Crash one subscriber's process. A new process replaces it, except sometimes in a group."""
        name = self._random.choice(self._names)
        host = self._sim.host(f"host-{name}")
        if host.is_up:
            host.crash(silent=self._random.random() < 0.5)
            running = sum(self._sim.host(f"host-{each}").is_up for each in self._names)
            if self._scenario.is_group and running and self._random.random() < 0.4:
                # Without a restart: the other members receive its pending entries.
                return
            await asyncio.sleep(self._random.random())
            self._boot(name)

    async def _live(self, name: str, life: int, rng: random.Random) -> None:
        story = self._story(name)
        while not self._is_over:
            url = "equipoise://" + ",".join(f"{hub}:{PORT}" for hub in rng.sample(self._world.names, 2))
            try:
                async with (
                    equipoise.connect(url, settings=SMART_SETTINGS, rng=random.Random(rng.random())) as bus,
                    self._subscribe(bus, name) as subscription,
                ):
                    await self._follow(subscription, story, (name, life), rng)
            except EquipoiseError as problem:
                story.troubles.append(f"{name}: {problem!r}")
                await asyncio.sleep(0.1)

    def _subscribe(self, bus: equipoise.Bus, name: str) -> DurableSubscription:
        topic, scenario = self._track.topic, self._scenario
        group = GROUP if scenario.is_group else None
        if not scenario.is_retried:
            timeout_s = _ACK_S if scenario.is_group else None
            return bus.subscribe(topic, durable=name, group=group, start="beginning", ack_timeout_s=timeout_s)
        return bus.subscribe(
            topic,
            durable=name,
            group=group,
            start="beginning",
            ack_timeout_s=_ACK_S,
            deliveries_max=DELIVERIES_MAX,
            dead_letter=DEAD_LETTER,
        )

    async def _follow(
        self,
        subscription: DurableSubscription,
        story: SubscriberTrack,
        process: tuple[str, int],
        rng: random.Random,
    ) -> None:
        unsettled: list[DurableMessage] = []
        async for event in subscription:
            if isinstance(event, Gap):
                story.gaps.append(event.missed)
                continue
            story.got.append(DurableDelivery(*process, event.id.encode(), event.payload, event.deliveries))
            if self._scenario.is_retried and (is_poison(event.payload) or rng.random() < 0.05):
                await subscription.nack(event, delay_s=rng.random() * 0.3, reason="cannot be processed")
                continue
            unsettled.append(event)
            if len(unsettled) < rng.choice((1, 1, 4)):
                continue
            if rng.random() < 0.3 and not self._scenario.is_retried and not self._scenario.is_group:
                await subscription.ack_up_to(unsettled[-1])
            else:
                await subscription.ack(*unsettled)
            story.settle(message.id.encode() for message in unsettled)
            unsettled.clear()

    # The end.

    async def drain(self, within_s: float) -> None:
        """Wait until every subscriber has received all entries; then stop."""
        stories = self._track.subscribers
        await self._sim.until(lambda: all(map(self._is_done, stories.values())), within_s)
        self._is_over = True
        for name in self._names:
            self._sim.host(f"host-{name}").crash()

    def _is_done(self, story: SubscriberTrack) -> bool:
        values = [value for _, value in self._track.final]
        dead = {value for value, _ in self._track.dead}
        if not self._track.poison <= dead:
            return False
        return {value for value in values if value not in dead} <= {got.value for got in story.got}
