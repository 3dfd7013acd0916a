"""Take one topic from hub to hub by changing the plan, and remember when."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from equipoise.errors import PlanRaceError
from equipoise.model import Entry, PlanChange, Reason, Why
from equipoise.store import PlanStore, Store

__all__ = ["Mover"]


@dataclass
class Mover:
    """Run `run` as a task; `home` and `moves` say how far it is."""

    store: Store
    topic: bytes
    hubs: list[str]
    # Long enough to see that nothing happens.
    pause_s: float = 2.0
    home: str = "by the ring"
    moves: int = 0
    plans: PlanStore = field(init=False)

    def __post_init__(self) -> None:
        self.plans = PlanStore(self.store, writer="demo")

    async def run(self) -> None:
        while True:
            for hub in self.hubs:
                await asyncio.sleep(self.pause_s)
                await self._move(hub)

    async def _move(self, hub: str) -> None:
        plan = await self.plans.load()
        if hub not in plan.by_hub:
            return
        why = Why(Reason.OPERATOR, note="the demo shows a move")
        try:
            await self.plans.commit(PlanChange.on(plan, why, set_entries=[Entry(self.topic, (hub,))]))
        except PlanRaceError:
            return
        self.home, self.moves = hub, self.moves + 1
