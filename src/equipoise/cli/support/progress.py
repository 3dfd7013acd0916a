"""Progress on standard error; on a terminal it disappears at the end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

__all__ = ["counting", "told_if_long", "working"]

# A user who waits longer wants to know for what.
LONG_S = 2.0


@contextmanager
def working(words: str, *, is_quiet: bool = False) -> Iterator[Callable[[str], None]]:
    """For work of unknown length. Call the yielded function to change the text."""
    console = Console(stderr=True, highlight=False)
    if is_quiet or not console.is_terminal:
        yield lambda _: None
        return
    with console.status(words) as status:
        yield status.update


@asynccontextmanager
async def told_if_long(words: str, *, is_quiet: bool = False) -> AsyncIterator[None]:
    """For work that is usually short: print what is waited for once it takes long, on a terminal or not."""
    console = Console(stderr=True, highlight=False)
    status = console.status(words)

    def tell() -> None:
        if console.is_terminal:
            status.start()
        else:
            console.print(words, soft_wrap=True)

    telling = None if is_quiet else asyncio.get_running_loop().call_later(LONG_S, tell)
    try:
        yield
    finally:
        if telling is not None:
            telling.cancel()
        status.stop()


@contextmanager
def counting(words: str, total: int) -> Iterator[Callable[[int], None]]:
    """For counted work. Call the yielded function with the number done."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda _: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as shown:
        task = shown.add_task(words, total=total)
        yield lambda done: shown.update(task, completed=done)
