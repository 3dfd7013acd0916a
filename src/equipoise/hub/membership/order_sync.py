"""Load the publisher order that the plan names for each split topic of this hub.

Any home may have to assign seats after a crash, so every home loads the order. Without the store a hub continues with
the orders that it has: publishers without a rank are assigned by number alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from equipoise.limits.seat_order import SeatOrder
from equipoise.model import Plan
from equipoise.store.contract import Store
from equipoise.store.records.seat_orders import SeatOrders
from equipoise.store.tree import Tree

__all__ = ["OrderSync"]

# Interval of retries, in seconds. An order is stored before a plan names it, so a missing one was removed by an
# operator.
AGAIN_S = 30.0


class OrderSync:
    """Owned by one membership. `apply` is called with each topic's order."""

    def __init__(self, store: Store, tree: Tree, hub: str, apply: Callable[[bytes, SeatOrder], None]) -> None:
        self._orders = SeatOrders(store, tree)
        self._hub = hub
        self._apply = apply
        # By topic, the number of the order that the plan names; and the number of the applied order.
        self._named: dict[bytes, int] = {}
        self._known: dict[bytes, int] = {}
        self._news = asyncio.Event()

    def applied(self, plan: Plan) -> None:
        """The hub has applied this plan."""
        self._named = {
            entry.topic: entry.order for entry in plan.replicated if entry.order and self._hub in entry.homes
        }
        self._known = {topic: number for topic, number in self._known.items() if topic in self._named}
        if self._missing():
            self._news.set()

    async def follow(self) -> None:
        """Load the orders that the plan names. Runs until it is cancelled."""
        while True:
            try:
                async with asyncio.timeout(AGAIN_S if self._missing() else None):
                    await self._news.wait()
            except TimeoutError:
                pass
            self._news.clear()
            for topic in self._missing():
                order = await self._orders.load(topic)
                if order is not None and topic in self._named:
                    self._known[topic] = order.number
                    self._apply(topic, order)

    def _missing(self) -> list[bytes]:
        return [topic for topic, number in self._named.items() if self._known.get(topic, 0) < number]
