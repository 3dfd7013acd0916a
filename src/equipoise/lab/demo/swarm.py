"""A swarm of drones that publishes continuously and flies between sites; counts what each drone received.

A drone is a smart client with a radio link. When the swarm crosses, the latency of each drone to every hub changes at
once, its connections stay open, and it reports its new gateway. The system must detect everything else.

Every drone receives the messages of every other drone, and the tally of the game counts them, so lost, duplicated and
disordered messages are known exactly.

`Following` records how the swarm's topic follows it: the crossing, when the limit was exceeded, and when it held again.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress

import equipoise.client as client
from equipoise.errors import EquipoiseError
from equipoise.lab.demo.scene import Scene
from equipoise.lab.demo.wan import SiteDelays
from equipoise.lab.workload.game import GameTally

__all__ = ["LIMIT_MS", "TOPIC", "Following", "Swarm"]

TOPIC = b"swarm/1"
# ePulsar's limit for swarms (5.6).
LIMIT_MS = 40.0
DRONES = 4
UPDATES_PER_S = 8.0
PAYLOAD_BYTES = 200
# Window of latency, and its quantile.
_KEPT_S = 2.0
_QUANTILE = 0.95
# Timeout for a gateway's coordinate; without it the drone finds its own, which takes longer.
_GATEWAY_S = 5.0


class Swarm:
    """Owned by one task. Call `start`, `fly_to` any number of times, `hush` and `stop`."""

    def __init__(
        self,
        urls: Sequence[str],
        ways: SiteDelays,
        gateways: Mapping[str, str],
        tally: GameTally,
        *,
        seed: int = 0,
    ) -> None:
        """`urls`: relays of hubs; `gateways`: by site, the address of its gateway for drones."""
        self.tally = tally
        self._url = "equipoise://" + ",".join(url.removeprefix("equipoise://") for url in urls)
        self._ways = ways
        self._gateways = gateways
        self._rng = random.Random(seed)
        self._flying: list[asyncio.Task[None]] = []
        self._buses: dict[str, client.Bus] = {}
        # (time, latency) of deliveries, the latest last.
        self._latencies_s: deque[tuple[float, float]] = deque()
        self._listening = 0
        self._is_silent = False
        # Current site; empty while the swarm does not fly.
        self.site = ""

    def latency_ms(self) -> float | None:
        """The 95th percentile of the latency of the last two seconds; None without updates."""
        now = asyncio.get_running_loop().time()
        while self._latencies_s and self._latencies_s[0][0] < now - _KEPT_S:
            self._latencies_s.popleft()
        taken = sorted(took for _, took in self._latencies_s)
        return 1_000 * taken[int(_QUANTILE * len(taken))] if taken else None

    async def fly_to(self, site: str) -> None:
        """Take off at the site, or cross to it."""
        is_new, self.site = not self._flying, site
        names = [f"drone-{number}" for number in range(DRONES)]
        for name in names:
            self._ways.movers.add(name)
            self._ways.places[name] = site
        if is_new:
            self._flying = [asyncio.create_task(self._fly(name, at)) for at, name in enumerate(names)]
        elif (gateway := self._gateways.get(site)) is not None:
            words = [bus.use_gateway(gateway, timeout_s=_GATEWAY_S) for bus in self._buses.values()]
            await asyncio.gather(*words, return_exceptions=True)

    def hush(self) -> None:
        """Stop publishing; messages in flight still arrive."""
        self._is_silent = True

    async def stop(self) -> None:
        for task in self._flying:
            task.cancel()
        await asyncio.gather(*self._flying, return_exceptions=True)
        self._flying.clear()

    async def _fly(self, name: str, number: int) -> None:
        gateway = self._gateways.get(self.site, "")
        async with client.connect(self._url, name=name, coordinate_gateway=gateway) as bus:
            self._buses[name] = bus
            try:
                async with asyncio.TaskGroup() as group:
                    group.create_task(self._listen(bus, number))
                    group.create_task(self._talk(bus, number))
            finally:
                del self._buses[name]

    async def _listen(self, bus: client.Bus, number: int) -> None:
        loop, tally = asyncio.get_running_loop(), self.tally
        async with bus.subscribe(TOPIC) as messages:
            self._listening += 1
            async for event in messages:
                if isinstance(event, client.Gap):
                    tally.gaps += 1
                    continue
                tally.observe(_ear(number), event.payload)
                tally.delivered += 1
                at = float(event.payload.split(b" ", 3)[2])
                self._latencies_s.append((loop.time(), loop.time() - at))

    async def _talk(self, bus: client.Bus, number: int) -> None:
        """Publish once all drones are subscribed."""
        loop, tally = asyncio.get_running_loop(), self.tally
        while self._listening < DRONES:  # noqa: ASYNC110  a handful of tasks of one loop
            await asyncio.sleep(0.05)
        sequence = 0
        while True:
            await asyncio.sleep((0.8 + 0.4 * self._rng.random()) / UPDATES_PER_S)
            if self._is_silent:
                continue
            keys = [(_ear(listener), number) for listener in range(DRONES)]
            tally.sent.update(dict.fromkeys(keys, sequence + 1))
            # Doubtful until the receipt arrives.
            doubtful = {(*key, sequence) for key in keys}
            tally.doubtful |= doubtful
            payload = b"%d %d %.6f " % (number, sequence, loop.time())
            with suppress(EquipoiseError):
                await bus.publish(TOPIC, payload.ljust(PAYLOAD_BYTES, b"."))
                tally.doubtful -= doubtful
                tally.published += 1
            sequence += 1


def _ear(number: int) -> bytes:
    """The key of a drone's received messages in the tally, like a tile of its own."""
    return b"%b>%d" % (TOPIC, number)


# A single second under the limit may be chance.
HELD_LOOKS = 3


class Following:
    """Owned by the show, which calls `leave` and `see`. All fields are about the last crossing."""

    def __init__(self) -> None:
        self.site = ""
        # Crossings after the take-off.
        self.crossings = 0
        # Worst since the crossing.
        self.latency_ms_max: float | None = None
        self.was_broken = False
        # Time from the crossing until the limit held again, if it was exceeded; for the report.
        self.back_s: float | None = None
        self._left_at_s = 0.0
        self._held = 0
        self._held_since_s = 0.0

    def leave(self, site: str, at_s: float) -> None:
        """The swarm leaves for a site."""
        self.crossings += bool(self.site)
        self.site, self._left_at_s = site, at_s
        self.latency_ms_max, self.was_broken, self.back_s, self._held = None, False, None, 0

    def see(self, scene: Scene) -> None:
        swarm = scene.swarm
        if swarm is None or swarm.latency_ms is None:
            return
        self.latency_ms_max = max(self.latency_ms_max or 0.0, swarm.latency_ms)
        if swarm.latency_ms > swarm.limit_ms or swarm.home_site != self.site:
            self.was_broken |= swarm.latency_ms > swarm.limit_ms
            self._held = 0
            return
        if not self._held:
            self._held_since_s = scene.at_s
        self._held += 1
        if self.was_broken and self.back_s is None and self.is_near:
            self.back_s = self._held_since_s - self._left_at_s

    @property
    def is_near(self) -> bool:
        """The topic is at the swarm's site, and its limit has held for some polls."""
        return self._held >= HELD_LOOKS
