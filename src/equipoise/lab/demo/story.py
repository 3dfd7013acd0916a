"""Run the acts on a running cluster: players join and leave, the busy topic moves, one poll per second.

The players are smart clients on the loop of this process; the caller starts and stops the system's processes. The demo
moves the topic by plan changes, as an operator would.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress

from equipoise.errors import PlanRaceError
from equipoise.lab.demo.acts import FAVOURITE, GAME, Act, Until
from equipoise.lab.demo.poller import Watcher
from equipoise.lab.demo.scene import Scene
from equipoise.lab.demo.swarm import Following, Swarm
from equipoise.lab.workload.game import GameLoad
from equipoise.model import Entry, PlanChange, Reason, Why
from equipoise.store import PlanStore, Store, Tree

__all__ = ["Mover", "Show"]


class Mover:
    """Run `run` as a task; `moves` counts."""

    def __init__(self, store: Store, tree: Tree, topic: bytes, *, pause_s: float) -> None:
        """`pause_s`: delay between two moves, long enough to see that a move has no visible effect."""
        self._plans = PlanStore(store, tree, writer="demo")
        self._topic = topic
        self._pause_s = pause_s
        self.moves = 0

    async def run(self, hubs: Sequence[str]) -> None:
        """Move the topic until cancelled."""
        while True:
            for hub in hubs:
                await asyncio.sleep(self._pause_s)
                await self._move(hub)

    async def _move(self, hub: str) -> None:
        plan = await self._plans.load()
        if hub not in plan.by_hub:
            return
        why = Why(Reason.OPERATOR, note="the demo shows a move")
        # Another writer committed first; the next move follows soon.
        with suppress(PlanRaceError):
            await self._plans.commit(PlanChange.on(plan, why, set_entries=[Entry(self._topic, (hub,))]))
            self.moves += 1


LOOK_S = 1.0
# Time for messages in flight after the last player has left.
SETTLE_S = 3.0


class Show:
    """One run of the demo. Call `play` once; then read `verdict`, and `watcher` for the recorded scenes."""

    def __init__(
        self, load: GameLoad, watcher: Watcher, mover: Mover, hubs: Sequence[str], swarm: Swarm
    ) -> None:
        """`hubs`: the hubs that run from the beginning to the end."""
        self.watcher = watcher
        self.following = Following()
        self._load = load
        self._swarm = swarm
        self._mover = mover
        self._hubs = hubs
        self._began_at = 0.0
        # The largest numbers during the demo.
        self.hubs_max = 0
        self.homes_max = 0
        # Acts whose condition was not met in time.
        self.missed: list[Act] = []

    @property
    def moves(self) -> int:
        """Number of moves made by the demo."""
        return self._mover.moves

    def verdict(self) -> dict[str, int]:
        """Lost, duplicated, out_of_order and gaps over all messages."""
        return self._load.tally.verdict()

    async def play(self, acts: Sequence[Act], look: Callable[[Scene], None]) -> None:
        """Returns when all acts are over and messages in flight have arrived."""
        await self._load.start()
        try:
            self._began_at = asyncio.get_running_loop().time()
            for act in acts:
                await self._play(act, look)
            self._swarm.hush()
            await self._load.settle(SETTLE_S)
        finally:
            await self._swarm.stop()
            await self._load.stop()

    async def _play(self, act: Act, look: Callable[[Scene], None]) -> None:
        self._load.favourite = FAVOURITE if act.crowd_of_ten else None
        self._load.crowd_of_ten = act.crowd_of_ten
        if act.swarm_at and act.swarm_at != self._swarm.site:
            self.following.leave(act.swarm_at, self._passed_s())
            await self._swarm.fly_to(act.swarm_at)
        moving = asyncio.create_task(self._mover.run(self._hubs)) if act.is_moving else None
        try:
            await self._go_on(act, look)
        finally:
            if moving is not None:
                moving.cancel()
                with suppress(asyncio.CancelledError):
                    await moving

    async def _go_on(self, act: Act, look: Callable[[Scene], None]) -> None:
        loop = asyncio.get_running_loop()
        began_at, players = loop.time(), self._load.players
        while (passed_s := loop.time() - began_at) < act.seconds_max:
            if passed_s >= act.seconds_min and self._has_come(act.until):
                return
            part = min(1.0, passed_s / act.ramp_s)
            self._load.set_players(round(players + part * (act.players - players)))
            scene = await self.watcher.look(act, self._passed_s())
            self.following.see(scene)
            self.hubs_max = max(self.hubs_max, self.watcher.hubs)
            self.homes_max = max(self.homes_max, self._favourite_homes())
            look(scene)
            await asyncio.sleep(max(0.0, LOOK_S - (loop.time() - began_at - passed_s)))
        if not self._has_come(act.until):
            self.missed.append(act)

    def _has_come(self, until: Until) -> bool:
        watcher = self.watcher
        match until:
            case Until.NOTHING:
                return True
            case Until.SEEN:
                return watcher.is_seen
            case Until.GROWN:
                return watcher.hubs > len(self._hubs) and self._favourite_homes() > 1
            case Until.SHRUNK:
                return watcher.hubs <= len(self._hubs)
            case Until.SETTLED:
                return self.following.is_near
            case Until.FOLLOWED:
                # A topic may follow faster than the poll interval, so that no poll sees the limit exceeded.
                return self.following.crossings > 0 and self.following.is_near

    def _passed_s(self) -> float:
        return asyncio.get_running_loop().time() - self._began_at

    def _favourite_homes(self) -> int:
        return self.watcher.homes_of(GAME.topic_at(*FAVOURITE).decode())
