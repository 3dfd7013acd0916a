"""Follow the nodes of a folder: additions, removals, changed data."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import TypeVar

from equipoise.errors import NoNodeError, StoreUnavailableError
from equipoise.store.contract import Store, WatchKind

__all__ = ["follow", "read_reported"]

T = TypeVar("T")


async def follow(
    store: Store, folder: str, *kinds: WatchKind, timeout_s: float | None = None
) -> AsyncGenerator[None, None]:
    """Yield at once, and then whenever the folder's children, or by `kinds` the content of one, may have changed.

    Several changes may be one event: read after each. `kinds` is DATA by default. `timeout_s` is the longest interval
    between events. Continues after a loss of the store; close it (`aclosing`) when done.
    """
    news = asyncio.Event()
    watchers: dict[str, list[asyncio.Task[None]]] = {}
    top, entered = _watching(store, folder, WatchKind.CHILDREN, news)
    try:
        await entered.wait()
        while True:
            await _adjust(store, folder, kinds or (WatchKind.DATA,), watchers, news)
            yield
            try:
                async with asyncio.timeout(timeout_s):
                    await news.wait()
            except TimeoutError:
                pass
            news.clear()
            # A watcher ends if the store is closed, or rejects a request: raise that in the follower.
            for watcher in (top, *(task for group in watchers.values() for task in group)):
                if watcher.done():
                    watcher.result()
    finally:
        tasks = [top, *(task for group in watchers.values() for task in group)]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def read_reported(load: Callable[[], Awaitable[T]]) -> T:
    """Read what a watch has reported, however long the store takes: it does not report the same change again."""
    while True:
        try:
            return await load()
        except StoreUnavailableError:
            # The attempt has waited for its time-out.
            continue


async def _adjust(
    store: Store,
    folder: str,
    kinds: tuple[WatchKind, ...],
    watchers: dict[str, list[asyncio.Task[None]]],
    news: asyncio.Event,
) -> None:
    """Watch exactly the present children. If the store does not reply, the next attempt follows."""
    try:
        names = set(await store.children(folder))
    except NoNodeError:
        names = set()
    except StoreUnavailableError:
        # Also if the session lasts, and with it the watch, which reports no change that it has reported.
        news.set()
        return
    for name in sorted(watchers.keys() - names):
        for task in watchers.pop(name):
            task.cancel()
    entering: list[asyncio.Event] = []
    for name in sorted(names - watchers.keys()):
        begun = [_watching(store, f"{folder}/{name}", kind, news) for kind in kinds]
        watchers[name] = [task for task, _ in begun]
        entering += [entered for _, entered in begun]
    for entered in entering:
        await entered.wait()


def _watching(
    store: Store, path: str, kind: WatchKind, news: asyncio.Event
) -> tuple[asyncio.Task[None], asyncio.Event]:
    """A task that raises `news` at every change, and an event: the watch is armed, or the store is unavailable."""
    entered = asyncio.Event()

    async def watch() -> None:
        while True:
            try:
                async with store.watch(path, kind) as watching:
                    entered.set()
                    while await watching.changed():
                        news.set()
            except StoreUnavailableError:
                # Reported once the store is back, together with possible changes.
                news.set()
            finally:
                entered.set()

    def wake(_: asyncio.Task[None]) -> None:
        news.set()

    task = asyncio.create_task(watch())
    task.add_done_callback(wake)
    return task, entered
