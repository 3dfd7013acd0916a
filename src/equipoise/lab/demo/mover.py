"""Take one topic from hub to hub by changing the plan, as an operator would."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress

from equipoise.errors import PlanRaceError
from equipoise.model import Entry, PlanChange, Reason, Why
from equipoise.store import PlanStore, Store, Tree

__all__ = ["Mover"]


class Mover:
    """Run `run` as a task; `moves` counts."""

    def __init__(self, store: Store, tree: Tree, topic: bytes, *, pause_s: float) -> None:
        """`pause_s`: between two moves, long enough to see that nothing happens."""
        self._plans = PlanStore(store, tree, writer="demo")
        self._topic = topic
        self._pause_s = pause_s
        self.moves = 0

    async def run(self, hubs: Sequence[str]) -> None:
        """Until cancelled."""
        while True:
            for hub in hubs:
                await asyncio.sleep(self._pause_s)
                await self._move(hub)

    async def _move(self, hub: str) -> None:
        plan = await self._plans.load()
        if hub not in plan.by_hub:
            return
        why = Why(Reason.OPERATOR, note="the demo shows a move")
        # Whoever was faster has its reasons; the next move comes soon.
        with suppress(PlanRaceError):
            await self._plans.commit(PlanChange.on(plan, why, set_entries=[Entry(self._topic, (hub,))]))
            self.moves += 1
