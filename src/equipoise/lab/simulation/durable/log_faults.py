"""Faults of log owners, their store, links and bookies while clients append and read."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from equipoise.lab.scenarios.scenario import Times
from equipoise.lab.simulation.cluster.region import STORE, RegionHub
from equipoise.model import Entry

if TYPE_CHECKING:
    from equipoise.lab.simulation.durable.logs_world import LogsWorld

__all__ = ["SESSION_S", "LogFaults"]

# Session timeout of hubs.
SESSION_S = 1.0


class LogFaults:
    """Draws faults from the seed and injects them; each fault ends by itself."""

    def __init__(self, world: LogsWorld) -> None:
        self._world = world
        self._sim = world.sim
        self._random = world.random

    async def play(self) -> None:
        scenario = self._world.scenario
        kinds: list[tuple[str, Times, Callable[[], Any]]] = [
            ("move", scenario.moves, self._move),
            ("trim", scenario.trims, self._trim),
            ("hub crash", scenario.crashes, self._crash),
            ("hub stop", scenario.stops, self._stop),
            ("zombie", scenario.zombies, self._freeze),
            ("store cut", scenario.store_cuts, self._cut_store),
            ("cut", scenario.cuts, self._isolate),
            ("store outage", scenario.outages, self._lose_store),
            ("link cut", scenario.link_cuts, self._cut_link),
            ("bookie crash", scenario.bookie_crashes, self._crash_bookie),
            ("client cut", scenario.client_cuts, self._cut_client),
            ("subscriber crash", scenario.subscriber_crashes, self._world.subscribers.crash),
        ]
        async with asyncio.TaskGroup() as tasks:
            for name, (low, high), act in kinds:
                for _ in range(self._random.randint(low, high)):
                    at = self._random.random() * scenario.duration_s
                    tasks.create_task(self._at(at, name, act))
            tasks.create_task(asyncio.sleep(scenario.duration_s))

    async def _at(self, at_s: float, name: str, act: Callable[[], Any]) -> None:
        await asyncio.sleep(at_s)
        self._world.count(name)
        await act()

    def _hub(self) -> RegionHub | None:
        """A hub without a fault, if at least one other hub has none either."""
        hubs = [n for n in self._world.region.hubs.values() if n.name not in self._world.down]
        return self._random.choice(hubs) if len(hubs) > 1 else None

    @contextlib.contextmanager
    def _one(self) -> Iterator[RegionHub | None]:
        node = self._hub()
        if node is not None:
            self._world.down.add(node.name)
        yield node
        if node is not None:
            self._world.down.discard(node.name)

    async def _move(self) -> None:
        region = self._world.region
        track = self._random.choice(self._world.tracks)
        # Also to a hub without logs, which the spec of the topic excludes as its home.
        old = self._world.old_names if track is self._world.tracks[0] else []
        topic, home = track.topic.encode(), self._random.choice([*self._world.names, *old])
        entries = {**region.plan.entries, topic: Entry(topic, (home,))}
        region.commit(replace(region.plan, entries=entries))

    async def _trim(self) -> None:
        """Trim the older half of the acknowledged entries, or less."""
        track = self._random.choice(self._world.tracks)
        ids = [at for _, _, at in track.acked if at]
        if ids:
            at = ids[int(self._random.random() * len(ids) / 2)]
            await self._sim.host("trimmer").spawn(self._world.trim(track, at), name="trim")

    async def _crash(self) -> None:
        with self._one() as node:
            if node is not None:
                node.crash(silent=self._random.random() < 0.5)
                await asyncio.sleep(0.1 + self._random.random() * 2 * SESSION_S)
                node.start()

    async def _stop(self) -> None:
        with self._one() as node:
            if node is not None:
                await node.host.spawn(node.stop(), name="stop")
                node.host.crash()
                await asyncio.sleep(0.1 + self._random.random())
                node.start()

    async def _freeze(self) -> None:
        with self._one() as node:
            if node is not None:
                node.host.pause()
                await asyncio.sleep(SESSION_S * (0.3 + 2 * self._random.random()))
                node.host.thaw()
                await asyncio.sleep(0.2)

    async def _cut_store(self) -> None:
        with self._one() as node:
            if node is not None:
                one_way = self._random.random() < 0.3
                self._sim.cut(node.name, STORE, one_way=one_way)
                await asyncio.sleep(SESSION_S * (0.3 + 2 * self._random.random()))
                self._sim.heal(node.name, STORE)

    async def _isolate(self) -> None:
        """Cut a hub off from the store and the other hubs, but not from bookies and clients."""
        with self._one() as node:
            if node is not None:
                others = [STORE, *(name for name in self._world.names if name != node.name)]
                for other in others:
                    self._sim.cut(node.name, other)
                await asyncio.sleep(SESSION_S * (0.5 + 2 * self._random.random()))
                for other in others:
                    self._sim.heal(node.name, other)

    async def _lose_store(self) -> None:
        region = self._world.region
        if region.host.is_up:
            region.go_away()
            await asyncio.sleep(0.3 + self._random.random() * 1.5)
            self._world.serve_store()

    async def _cut_link(self) -> None:
        one, other = self._random.sample(self._world.names, 2)
        if self._random.random() < 0.5:
            self._sim.reset_connections(one, other)
            return
        self._sim.cut(one, other)
        await asyncio.sleep(self._random.random() * 1.5)
        self._sim.heal(one, other)

    async def _cut_client(self) -> None:
        self._world.publishers.cut()

    async def _crash_bookie(self) -> None:
        name = self._random.choice(sorted(self._world.bookies))
        host = self._world.bookies[name]
        if host.is_up:
            host.crash(silent=self._random.random() < 0.5)
            await asyncio.sleep(0.1 + self._random.random())
            self._world.boot(name)
