"""A hub has the orders of publishers that its plan names, and no others."""

from __future__ import annotations

import asyncio

import pytest

from equipoise.hub.membership.order_sync import OrderSync
from equipoise.limits.seat_order import SeatOrder
from equipoise.model import Entry, Member, Mode, Plan
from equipoise.store.records.seat_orders import SeatOrders
from store.memory_world import TREE, MemoryWorld, run

KEY = b"k" * 32


def plan_of(order: int, *homes: str) -> Plan:
    entry = Entry(b"x", homes, Mode.ALL_SUBSCRIBERS if len(homes) > 1 else Mode.SINGLE, order=order)
    return Plan.of(members=[Member("h1"), Member("h2"), Member("h3")], entries=[entry])


def test_a_home_reads_the_order_that_the_plan_names_once_and_a_newer_one_again() -> None:
    async def scenario() -> None:
        world = MemoryWorld()
        store = await world.store()
        orders = SeatOrders(store, TREE)
        assert (await orders.keep(b"x", KEY, [3, -1, 2])).number == 1
        taken: list[SeatOrder] = []
        sync = OrderSync(store, TREE, "h1", lambda topic, order: taken.append(order))
        following = asyncio.create_task(sync.follow())

        async def applied(plan: Plan) -> int:
            sync.applied(plan)
            for _ in range(20):
                await asyncio.sleep(0)
            return len(taken)

        assert await applied(plan_of(0, "h1", "h2")) == 0
        assert await applied(plan_of(1, "h2", "h3")) == 0, "it is no home"
        assert await applied(plan_of(1, "h2", "h1")) == 1
        assert await applied(plan_of(1, "h1", "h2")) == 1
        assert (await orders.keep(b"x", KEY, [2, 3])).number == 2
        assert await applied(plan_of(2, "h1", "h2")) == 2
        assert [order.number for order in taken] == [1, 2]
        # A topic that comes together and is split again has its order again.
        assert await applied(plan_of(0, "h1")) == 2
        assert await applied(plan_of(2, "h1", "h2")) == 3
        following.cancel()

    run(scenario())


def test_an_order_that_cannot_be_read_is_none_and_is_replaced() -> None:
    async def scenario() -> None:
        world = MemoryWorld()
        orders = SeatOrders(await world.store(), TREE)
        assert await orders.load(b"x") is None
        await orders.keep(b"x", KEY, [1])
        world.overwrite(TREE.seat_order(b"x"), b"damaged")
        assert await orders.load(b"x") is None
        assert (await orders.keep(b"x", KEY, [1, 2])).number == 1

    run(scenario())


@pytest.mark.parametrize("homes", [("h1",), ("h1", "h2")])
def test_an_entry_keeps_its_order_while_it_is_split(homes: tuple[str, ...]) -> None:
    entry = Entry(b"x", ("h1", "h2", "h3"), Mode.ALL_SUBSCRIBERS, order=4, seats=(500_000, 250_000, 250_000))
    after = entry
    for hub in {"h1", "h2", "h3"} - set(homes):
        left = after.without(hub)
        assert left is not None
        after = left
    assert after.order == (4 if len(homes) > 1 else 0)
    assert sum(after.seats) in (0, 1_000_000)
