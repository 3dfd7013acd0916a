"""Changes of the plan are read once each."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from equipoise.model import Entry, Member, Plan, PlanChange, Reason, Why
from equipoise.store import MemoryStore, MemoryTree, PlanStore
from equipoise.web.history import PlanHistory

WHY = Why(Reason.OPERATOR)


class Counting(PlanStore):
    """Says how many changes were asked for."""

    asked: int = 0

    async def history(self, limit: int = 50) -> list[object]:  # type: ignore[override]  # what it gives is not looked at
        self.asked += limit
        return list(await super().history(limit))


def play(scenario: Callable[[Counting, Callable[[], Awaitable[Plan]]], Awaitable[None]]) -> None:
    async def main() -> None:
        tree = MemoryTree(asyncio.get_running_loop().time)
        plans = Counting(await MemoryStore(tree).open())
        first = PlanChange.on(Plan(), WHY, set_members=[Member("a", 16)])
        await plans.commit(first)

        async def commit() -> Plan:
            entry = Entry(b"t%d" % plans.plan.version, ("a",))
            return await plans.commit(PlanChange.on(plans.plan, WHY, set_entries=[entry]))

        await scenario(plans, commit)

    asyncio.run(main())


def test_only_new_changes_are_read() -> None:
    async def scenario(plans: Counting, commit: Callable[[], Awaitable[Plan]]) -> None:
        history = PlanHistory(plans)
        for _ in range(4):
            await commit()
        found = await history.latest(3, 5)
        assert [one.change.version for one in found] == [5, 4, 3]
        asked = plans.asked
        assert await history.latest(3, 5) == found and plans.asked == asked
        await commit()
        assert [one.change.version for one in await history.latest(50, 6)] == [6, 5, 4, 3, 2, 1]
        assert plans.asked == asked + 1

    play(scenario)


def test_changes_ahead_of_the_requested_version_are_read_too() -> None:
    async def scenario(plans: Counting, commit: Callable[[], Awaitable[Plan]]) -> None:
        history = PlanHistory(plans)
        await commit()
        await commit()
        assert [one.change.version for one in await history.latest(50, 1)] == [3, 2, 1]
        asked = plans.asked
        await history.latest(50, 3)
        assert plans.asked == asked
        for _ in range(3):
            await commit()
        assert [one.change.version for one in await history.latest(50, 4)] == [6, 5, 4, 3, 2, 1]

    play(scenario)


def test_without_any_plan_there_is_no_history() -> None:
    async def main() -> None:
        plans = PlanStore(await MemoryStore(MemoryTree(asyncio.get_running_loop().time)).open())
        assert await PlanHistory(plans).latest(50, 0) == []

    asyncio.run(main())
