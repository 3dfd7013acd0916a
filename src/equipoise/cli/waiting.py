"""Show that something is going on, to whoever sits at a terminal: on standard error, and gone when it is over."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

__all__ = ["counting", "working"]


@contextmanager
def working(words: str, *, is_quiet: bool = False) -> Iterator[Callable[[str], None]]:
    """For work whose length nobody knows. Call what it gives with other words as it goes on."""
    console = Console(stderr=True, highlight=False)
    if is_quiet or not console.is_terminal:
        yield lambda _: None
        return
    with console.status(words) as status:
        yield status.update


@contextmanager
def counting(words: str, total: int) -> Iterator[Callable[[int], None]]:
    """For work that is counted. Call what it gives with how much is done."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda _: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as shown:
        task = shown.add_task(words, total=total)
        yield lambda done: shown.update(task, completed=done)
