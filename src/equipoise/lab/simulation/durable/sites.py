"""Hubs and bookies at several sites: at the end one site holds every log, and the others lose their bookies."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

from equipoise.lab.simulation.cluster.region import TREE
from equipoise.model import Entry
from equipoise.store.records.ledgers import LedgersStore
from equipoise.store.records.topic_logs import TopicLogsStore

if TYPE_CHECKING:
    from equipoise.lab.simulation.durable.logs_world import LogsWorld

__all__ = ["LastSite", "site_of"]

_PATIENCE_S = 120.0
_LOOK_S = 0.5


def site_of(name: str, sites: int) -> str:
    """The site of a hub or bookie by its number; empty with a single site."""
    return f"site{int(name[1:]) % sites}" if sites > 1 else ""


class LastSite:
    """The site to which all logs move at the end."""

    def __init__(self, world: LogsWorld) -> None:
        self._world = world
        self._sites = world.scenario.sites
        self.name = site_of(world.random.choice(world.names), self._sites)

    async def move(self) -> None:
        """Move every log to a hub of the site."""
        world, region = self._world, self._world.region
        hubs = [name for name in world.names if site_of(name, self._sites) == self.name]
        topics = [track.topic.encode() for track in world.tracks]
        entries = {topic: Entry(topic, (world.random.choice(hubs),)) for topic in topics}
        before = region.plan.version
        region.commit(replace(region.plan, entries={**region.plan.entries, **entries}))
        await world.sim.until(lambda: region.plan.version > before and region.is_settled(), _PATIENCE_S)

    async def gather(self) -> None:
        """Wait until all closed ledgers are at the site, then crash the bookies of the other sites."""
        world = self._world
        deadline = world.sim.now + _PATIENCE_S
        left = await self._left()
        while left and world.sim.now < deadline:
            await asyncio.sleep(_LOOK_S)
            left = await self._left()
        if left:
            world.tracks[0].problems.append(f"not moved to {self.name}: {', '.join(left[:3])}")
            return
        for name, host in world.bookies.items():
            if site_of(name, self._sites) != self.name:
                host.crash(silent=True)
        world.count("site lost")

    async def _left(self) -> list[str]:
        """Closed ledgers with a member at another site."""
        store = await self._world.region.beside()
        logs, ledgers = TopicLogsStore(store, TREE), LedgersStore(store, TREE)
        left: list[str] = []
        for track in self._world.tracks:
            for part in (await logs.load(track.topic.encode())).node.ledgers[:-1]:
                metadata, _ = await ledgers.load(part.ledger)
                members = {name for segment in metadata.segments for name in segment.members}
                abroad = sorted(name for name in members if site_of(name, self._sites) != self.name)
                if abroad:
                    left.append(f"ledger {part.ledger} of {track.topic} is at {', '.join(abroad)}")
        return left
