"""Progress on standard error; on a terminal it disappears at the end."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)

__all__ = ["ProgressBar", "progress_bar", "rate_text", "shown_if_long", "working"]

# After this time the user is shown the reason for waiting.
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
async def shown_if_long(words: str, *, is_quiet: bool = False) -> AsyncIterator[None]:
    """For work that is usually short: print the reason for waiting once it takes long, on a terminal or not."""
    console = Console(stderr=True, highlight=False)
    status = console.status(words)

    def tell() -> None:
        if console.is_terminal:
            status.start()
        else:
            console.print(words, soft_wrap=True)

    redirects = None if is_quiet else asyncio.get_running_loop().call_later(LONG_S, tell)
    try:
        yield
    finally:
        if redirects is not None:
            redirects.cancel()
        status.stop()


class ProgressBar:
    """Call it with the amount done so far, and with a new text if that changes."""

    def __init__(self, shown: Progress | None, words: str, total: float, unit: str) -> None:
        self._shown, self._unit = shown, unit
        self._began_at = time.monotonic()
        self._task = shown.add_task(words, total=total, rate="") if shown is not None else None

    def __call__(self, done: float, words: str | None = None) -> None:
        if self._shown is None or self._task is None:
            return
        rate = rate_text(done, time.monotonic() - self._began_at, self._unit)
        self._shown.update(self._task, completed=done, rate=rate, description=words)


@contextmanager
def progress_bar(words: str, total: float, unit: str = "") -> Iterator[ProgressBar]:
    """A bar with rate and remaining time for work of known amount, on a terminal; nothing elsewhere.

    `unit` names what is counted, in the plural; without it the amount is a share of the whole and shown in percent.
    """
    console = Console(stderr=True)
    if not console.is_terminal:
        yield ProgressBar(None, words, total, unit)
        return
    count = MofNCompleteColumn() if unit else TaskProgressColumn()
    columns = (TextColumn("{task.description}"), BarColumn(), count, TextColumn("{task.fields[rate]}"))
    with Progress(*columns, TimeRemainingColumn(), console=console, transient=True) as shown:
        yield ProgressBar(shown, words, total, unit)


def rate_text(done: float, elapsed_s: float, unit: str) -> str:
    """The rate per second, or per minute if it is below one per second; empty before the first unit."""
    if done <= 0 or elapsed_s <= 0:
        return ""
    rate, amount = done / elapsed_s, (unit or "%")
    if not unit:
        rate *= 100
    return f"{rate:,.0f} {amount}/s" if rate >= 1 else f"{60 * rate:,.1f} {amount}/min"
