"""Ids of ledgers: never given twice, and many concurrent requests cost the store few changes."""

from __future__ import annotations

import asyncio

from equipoise.store.records.ledgers import FIRST_LEDGER, LedgersStore
from store.memory_world import TREE, MemoryWorld, run


def test_a_thousand_ids_at_once_by_two_hubs_are_different_and_cost_few_changes() -> None:
    async def main() -> None:
        world = MemoryWorld()
        hubs = [LedgersStore(await world.store(), TREE) for _ in range(2)]
        ids = await asyncio.gather(*(hubs[number % 2].new_id() for number in range(1_000)))
        assert len(set(ids)) == 1_000
        assert min(ids) == FIRST_LEDGER
        counter = await (await world.store()).get(TREE.ledger_ids)
        assert counter.version < 20
        assert int(counter.data) >= max(ids)

    run(main())


def test_another_process_continues_after_the_reserved_ids() -> None:
    async def main() -> None:
        world = MemoryWorld()
        first = await LedgersStore(await world.store(), TREE).new_id()
        second = await LedgersStore(await world.store(), TREE).new_id()
        assert second > first

    run(main())
