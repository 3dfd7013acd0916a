"""Publishers to one durable topic: smart ones, which resend unanswered messages, and plain ones at old hubs.

The receipt timeout of smart publishers is longer than all faults together, so no message may stay uncertain.
"""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING

import equipoise
from equipoise.errors import EquipoiseError
from equipoise.lab.simulation.durable.log_client import SMART_SETTINGS, LogClient
from equipoise.lab.simulation.simulated_hub import PORT

if TYPE_CHECKING:
    from collections.abc import Callable

    from equipoise.client import Bus
    from equipoise.lab.simulation.durable.logs_world import LogsWorld
    from equipoise.lab.workload.log_history import LogTrack

__all__ = ["NumberedPublishers"]

_PATIENCE_S = 60.0
_PAUSE_S = 0.08


class NumberedPublishers:
    """The smart publishers of one run."""

    def __init__(self, world: LogsWorld, track: LogTrack) -> None:
        self._world = world
        self._track = track
        self.names = [f"p{number}" for number in range(1, world.scenario.publishers + 1)]

    def start(self, is_over: Callable[[], bool]) -> list[asyncio.Task[None]]:
        sim = self._world.sim
        work = [sim.host(name).spawn(self._publish(name, is_over), name=name) for name in self.names]
        old = self._world.old_names
        return work + [sim.host(f"c-{hub}").spawn(self._publish_at(hub, is_over)) for hub in old]

    def cut(self) -> None:
        """Reset the connections of a publisher to a hub. Its messages in flight may have arrived."""
        rng = self._world.random
        if self.names:
            self._world.sim.reset_connections(rng.choice(self.names), rng.choice(self._world.names))

    async def _publish(self, name: str, is_over: Callable[[], bool]) -> None:
        rng = random.Random(f"{name} {self._world.sim.seed}")
        hubs = rng.sample(self._world.names, len(self._world.names))
        url = "equipoise://" + ",".join(f"{hub}:{PORT}" for hub in hubs)
        number = 0
        async with equipoise.connect(url, settings=SMART_SETTINGS, rng=rng) as bus:
            while not is_over():
                await asyncio.sleep(rng.random() * _PAUSE_S)
                count = rng.choice((1, 1, 4))
                await asyncio.gather(*(self._one(bus, name, number + i) for i in range(count)))
                number += count

    async def _publish_at(self, hub: str, is_over: Callable[[], bool]) -> None:
        """Publish at a hub without logs, whose replies are not receipts of the log."""
        self._track.resent.add(hub)
        connection, rng, number = LogClient(lambda: hub), random.Random(hub), 0
        while not is_over():
            await asyncio.sleep(rng.random() * _PAUSE_S)
            await connection.ask(("PUBLISH", self._track.topic, f"{hub}.{number}"))
            number += 1
        connection.close()

    async def _one(self, bus: Bus, name: str, number: int) -> None:
        track = self._track
        try:
            receipt = await bus.publish(track.topic, f"{name}.{number}", timeout_s=_PATIENCE_S)
        except EquipoiseError as error:
            track.doubts.append(f"{name}.{number}: {error}")
            return
        at = (receipt.id or "").encode()
        track.acked.append((name, number, at))
        track.receipts.append((name, number, at, 0 if receipt.position is None else receipt.position.n))
