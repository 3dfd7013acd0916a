"""Hubs without a controller: logs spread by themselves, and a live hub takes over from a dead home.

One hub, the busy one, is full all the time: no log may come to lie there while others have room.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING

from equipoise.lab.simulation.cluster.region import TREE
from equipoise.lab.simulation.durable.log_client import LogClient
from equipoise.store.records.topic_logs import TopicLogsStore

if TYPE_CHECKING:
    from equipoise.lab.simulation.durable.logs_world import LogsWorld

__all__ = ["Spreading"]

_PATIENCE_S = 60.0
_QUIET_S = 4.0
_LOOK_S = 0.5


class Spreading:
    """How the logs of one run lie in the end."""

    def __init__(self, world: LogsWorld) -> None:
        self._world = world
        self._problems = world.tracks[0].problems

    async def check(self) -> None:
        """All hubs are there: logs spread, then lie still; and those of a hub that dies go where there is room."""
        world, region = self._world, self._world.region
        owners = await self._owners()
        deadline = world.sim.now + _PATIENCE_S
        while self._is_uneven(owners) and world.sim.now < deadline:
            await asyncio.sleep(_LOOK_S)
            owners = await self._owners()
        if self._is_uneven(owners):
            self._problems.append(f"without a controller the logs do not spread: {dict(owners)}")
            return
        version = region.plan.version
        await asyncio.sleep(_QUIET_S)
        if region.plan.version > version + 1:
            self._problems.append(
                f"{region.plan.version - version} plans in {_QUIET_S:g} s, with all in place"
            )
        others = [hub for hub in sorted(owners) if hub != world.busy]
        await self._lose(max(others, key=lambda hub: owners[hub]))

    async def _lose(self, victim: str) -> None:
        """A hub dies. Its logs are asked for, and must not come to the busy hub."""
        world, before = self._world, (await self._owners())[self._world.busy]
        world.region.hubs[victim].crash(silent=True)
        world.count("home lost")
        ask = next(name for name in world.names if name not in (victim, world.busy))
        connection = LogClient(lambda: ask)
        for track in world.tracks:
            for _ in range(100):
                number = world.judged(track)
                reply = await connection.ask(("XADD", track.topic, "*", "payload", f"judge.{number}"))
                if reply and isinstance(reply[0], bytes):
                    track.acked.append(("judge", number, reply[0]))
                    break
                await asyncio.sleep(0.2)
            else:
                self._problems.append(f"{track.topic} has no owner after {victim} died")
        connection.close()
        if (await self._owners())[world.busy] > before:
            self._problems.append(f"a log of {victim} lies at {world.busy}, which has no room")
        world.region.hubs[victim].start()
        await world.sim.until(world.region.is_settled, _PATIENCE_S)

    def _is_uneven(self, owners: Counter[str]) -> bool:
        """Whether a hub has one log or more above the mean: it gives those away, and no part of a log."""
        busy, topics = self._world.busy, len(self._world.tracks)
        others = [count for hub, count in owners.items() if hub != busy]
        # As many logs as there are topics are a load of 1, which is that of the busy hub with any number of them. It
        # may have got one while all others were down.
        mean = (sum(others) + topics) / len(self._world.names)
        return owners[busy] > 1 or max(others, default=0) >= mean + 1

    async def _owners(self) -> Counter[str]:
        """How many logs each hub owns, by the store."""
        logs = TopicLogsStore(await self._world.region.beside(), TREE)
        # Also that of the topic without entries that readers name.
        names = [*(track.topic.encode() for track in self._world.tracks), b"none"]
        nodes = [(await logs.load(name)).node for name in names]
        return Counter(node.owner for node in nodes if node.owner)
