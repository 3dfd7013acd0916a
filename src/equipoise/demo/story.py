"""Run the demo's scenario on real hubs and let somebody watch.

The same clients that the simulator drives, on the loop of this process; the hubs are processes of their own.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine, Sequence
from itertools import cycle

from equipoise.client import ClientSettings
from equipoise.scenarios import Scenario
from equipoise.workload import Driven, History, Place, Stage, cast_client

__all__ = ["play"]

# Between two looks; a person reads no faster.
LOOK_S = 0.5
PROGRESS_S = 5.0


async def play(
    scenario: Scenario,
    *,
    hubs: Sequence[tuple[str, int]],
    seconds: float,
    look: Callable[[History, float], None],
    meanwhile: Callable[[], Coroutine[None, None, None]] | None = None,
) -> History:
    """Drive all clients, spread over the hubs, for `seconds`, and return the history.

    `look` is called twice a second with what they saw; `meanwhile` runs from the beginning to the end of publishing.
    """
    loop = asyncio.get_running_loop()
    stage, history = Stage(), History()
    settings = ClientSettings(first_connect_patience_s=10.0)
    clients = [
        cast_client(client, Place(host, port, settings, random.Random(client.name)), stage, history)
        for client, (host, port) in zip(scenario.workload.each(), cycle(hubs), strict=False)
    ]
    async with asyncio.TaskGroup() as group:
        for client in clients:
            group.create_task(client.run())
        await _until(lambda: all(track.is_live for track in history.tracks))
        stage.begin.set()
        other = None if meanwhile is None else group.create_task(meanwhile())
        end_at = loop.time() + seconds
        while loop.time() < end_at:
            await asyncio.sleep(min(LOOK_S, end_at - loop.time()))
            look(history, loop.time())
        if other is not None:
            other.cancel()
        history.healed_at = loop.time()
        stage.conclude.set()
        await _until(lambda: _are_done(clients, history))
        stage.stop.set()
    return history


async def _until(is_true: Callable[[], bool]) -> None:
    """Wait for a state of the clients, within a bound: what has not come then is for the checkers to tell."""
    loop = asyncio.get_running_loop()
    end_at = loop.time() + PROGRESS_S
    # A state spread over all clients has no event of its own to wait for.
    while not is_true() and loop.time() < end_at:  # noqa: ASYNC110
        await asyncio.sleep(0.02)


def _are_done(clients: list[Driven], history: History) -> bool:
    """Every publisher's last message is with everybody who wants it."""
    if any(client.unfinished for client in clients):
        return False
    return all(
        track.has_reached(marker.stream, marker.sequence, history.healed_at)
        for marker in history.markers
        for track in history.tracks
        if marker.sequence is not None and track.wants(marker.stream[1])
    )
