"""Common parts of runs with one hub and with several: clients on hosts, waiting for conditions, the end of a run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from equipoise.lab.scenarios import Client
from equipoise.lab.simulation.world import Simulation
from equipoise.lab.workload import Driven, History, HubEndpoint, RunPhases, cast_client
from equipoise.lab.workload.history import Marker

__all__ = ["Staging"]

# Interval at which conditions are checked.
LOOK_S = 0.05


class Staging:
    """The clients of one run and their progress."""

    def __init__(self, sim: Simulation, history: History) -> None:
        self.sim = sim
        self.history = history
        self.stage = RunPhases()
        self.clients: list[Driven] = []

    def cast(self, client: Client, place: HubEndpoint) -> Driven:
        """Create a client and its host; `seat` starts it."""
        made = cast_client(client, place, self.stage, self.history)
        self.clients.append(made)
        return made

    def seat(self, client: Driven) -> None:
        self.sim.host(client.name).spawn(client.run(), name=client.name)

    async def until(self, is_so: Callable[[], bool], patience_s: float) -> None:
        """Wait for a condition up to a time limit."""
        for _ in range(int(patience_s / LOOK_S)):
            if is_so():
                return
            await asyncio.sleep(LOOK_S)

    def is_everybody_live(self) -> bool:
        return all(track.is_live for track in self.history.tracks)

    async def conclude(self, patience_s: float) -> None:
        """After healing: let publishers send messages that every subscriber must receive, and wait for them."""
        self.history.healed_at = self.sim.now
        self.sim.note("healed")
        self.stage.conclude.set()
        await self.until(self._is_concluded, patience_s)

    def _is_concluded(self) -> bool:
        if any(client.unfinished for client in self.clients):
            return False
        return all(
            track.has_reached(stream, sequence or 0, self.history.healed_at)
            for stream, sequence in self.history.markers
            for track in self.history.tracks
            if track.wants(stream[1]) and track.can_match(stream[0])
        )

    def note_unfinished(self) -> None:
        history = self.history
        marked = {marker.stream for marker in history.markers}
        for client in self.clients:
            if client.unfinished:
                history.unfinished.append(f"{client.name} is still waiting to publish")
                streams = [stream for stream in history.sent if stream[0] == client.name]
                history.markers += [Marker(stream, None) for stream in streams if stream not in marked]
