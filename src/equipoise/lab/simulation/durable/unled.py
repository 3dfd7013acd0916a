"""Hubs without a controller: hubs spread logs among themselves, and a live hub takes over from a dead home.

One hub, the busy one, is always full: it must not get a log while other hubs have capacity.
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
    """Checks the owners of the logs at the end of a run."""

    def __init__(self, world: LogsWorld) -> None:
        self._world = world
        self._problems = world.tracks[0].problems

    async def check(self) -> None:
        """With all hubs up, logs spread and then stay; the logs of a dead hub move to hubs with capacity."""
        world, region = self._world, self._world.region
        owners = await self._owners()
        deadline = world.sim.now + _PATIENCE_S
        while self._is_uneven(owners) and world.sim.now < deadline:
            await asyncio.sleep(_LOOK_S)
            owners = await self._owners()
        if self._is_uneven(owners):
            self._problems.append(f"logs do not spread without a controller: {dict(owners)}")
            return
        version = region.plan.version
        await asyncio.sleep(_QUIET_S)
        if region.plan.version > version + 1:
            self._problems.append(
                f"{region.plan.version - version} plans in {_QUIET_S:g} s after logs had spread"
            )
        others = [hub for hub in sorted(owners) if hub != world.busy]
        await self._lose(max(others, key=lambda hub: owners[hub]))

    async def _lose(self, victim: str) -> None:
        """Crash a hub. Clients use its logs, which must not move to the busy hub."""
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
            self._problems.append(f"a log of {victim} moved to {world.busy}, which is full")
        world.region.hubs[victim].start()
        await world.sim.until(world.region.is_settled, _PATIENCE_S)

    def _is_uneven(self, owners: Counter[str]) -> bool:
        """Whether a hub has at least one log more than the mean, which it should give away."""
        busy, topics = self._world.busy, len(self._world.tracks)
        others = [count for hub, count in owners.items() if hub != busy]
        # The load of a hub with all logs is 1, and so is the load of the busy hub with any number of logs. The busy hub
        # may have got one while all other hubs were down.
        mean = (sum(others) + topics) / len(self._world.names)
        return owners[busy] > 1 or max(others, default=0) >= mean + 1

    async def _owners(self) -> Counter[str]:
        """The number of logs of each hub, from the store."""
        logs = TopicLogsStore(await self._world.region.beside(), TREE)
        # Includes the topic without entries that readers name.
        names = [*(track.topic.encode() for track in self._world.tracks), b"none"]
        nodes = [(await logs.load(name)).node for name in names]
        return Counter(node.owner for node in nodes if node.owner)
