"""Subscribers to the channel of a durable topic: a plain one at each hub, and a smart one that follows redirects."""

from __future__ import annotations

import asyncio
import contextlib
import random
from typing import TYPE_CHECKING

import hiredis

import equipoise
from equipoise.client import Gap
from equipoise.errors import EquipoiseError
from equipoise.lab.simulation.durable.log_client import PATIENCE_S, SMART_SETTINGS
from equipoise.lab.simulation.simulated_hub import PORT
from equipoise.resp.replies import spell

if TYPE_CHECKING:
    from collections.abc import Callable

    from equipoise.lab.simulation.world import Simulation
    from equipoise.lab.workload.log_history import LogTrack

__all__ = ["LiveSubscribers"]

_PAUSE_S = 0.05


class LiveSubscribers:
    """The subscribers of one topic. `is_over` returns whether the run is over."""

    def __init__(
        self, sim: Simulation, hubs: list[str], track: LogTrack, is_over: Callable[[], bool]
    ) -> None:
        self._sim = sim
        self._hubs = hubs
        self._track = track
        self._is_over = is_over

    def start(self, hub: str) -> asyncio.Task[None]:
        return self._sim.host(f"sub-{hub}").spawn(self._subscribe(hub))

    def start_smart(self, name: str) -> None:
        """Start a smart subscriber, which runs until its host crashes."""
        self._sim.host(name).spawn(self._subscribe_smartly(name))

    async def _subscribe(self, hub: str) -> None:
        """Subscribe to the channel, and again after each lost connection."""
        track = self._track
        connections = track.heard.setdefault(hub, [])
        while not self._is_over():
            heard: list[bytes] = []
            connections.append(heard)
            parser = hiredis.Reader()
            try:
                async with asyncio.timeout(PATIENCE_S):
                    reader, writer = await asyncio.open_connection(hub, PORT)
                writer.write(spell([b"SUBSCRIBE", track.topic.encode()]))
                await self.hear(reader, parser, heard)
                writer.close()
            except (OSError, TimeoutError):
                await asyncio.sleep(_PAUSE_S)

    async def hear(self, reader: asyncio.StreamReader, parser: hiredis.Reader, heard: list[bytes]) -> None:
        while not self._is_over():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(0.5):
                    data = await reader.read(65536)
                if not data:
                    return
                parser.feed(data)
                while (push := parser.gets()) is not False:
                    if isinstance(push, list) and push[0] == b"message":
                        heard.append(push[2])

    async def _subscribe_smartly(self, name: str) -> None:
        """Subscribe once with the real client. It must receive all later messages, over any connections."""
        track, heard = self._track, list[bytes]()
        track.heard[name] = [heard]
        url = "equipoise://" + ",".join(f"{hub}:{PORT}" for hub in self._hubs)
        rng = random.Random(f"{name} {self._sim.seed}")
        while not heard:
            # The subscription may start while no hub is up.
            with contextlib.suppress(EquipoiseError):
                async with (
                    equipoise.connect(url, settings=SMART_SETTINGS, rng=rng) as bus,
                    bus.subscribe(track.topic) as subscription,
                ):
                    async for event in subscription:
                        if isinstance(event, Gap):
                            track.problems.append(f"{name} received a gap of {event.missed} messages")
                        else:
                            heard.append(event.payload)
