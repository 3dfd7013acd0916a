"""A follower of a folder in the store."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

from equipoise.errors import StoreUnavailableError
from equipoise.store.records.follow import follow
from store.memory_world import MemoryWorld, run


def test_a_child_is_followed_though_the_store_did_not_reply_when_it_was_created() -> None:
    """The session lasts, so nothing but the follower itself can make it look again."""

    async def scenario() -> None:
        store = await MemoryWorld().store()
        await store.ensure("/folder")
        children, is_silent = store.children, False

        async def sometimes(path: str) -> tuple[str, ...]:
            nonlocal is_silent
            if is_silent:
                is_silent = False
                raise StoreUnavailableError("the store did not answer")
            return await children(path)

        store.children = sometimes  # type: ignore[method-assign]
        async with aclosing(follow(store, "/folder")) as changes:
            await anext(changes)
            is_silent = True
            await store.create("/folder/child")
            await anext(changes)
            async with asyncio.timeout(5):
                # The attempt that follows the failed one watches the child.
                await anext(changes)
                await store.set("/folder/child", b"new", version=None)
                await anext(changes)

    run(scenario())
