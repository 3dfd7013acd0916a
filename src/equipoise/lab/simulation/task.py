"""A task with a place and a number.

asyncio keeps tasks in sets (`TaskGroup`, `asyncio.wait`), and a set's order follows the hashes in it. By
default those are memory addresses, which differ from run to run; a number makes the order repeatable.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from contextvars import Context
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from equipoise.lab.simulation.incarnation import Incarnation

__all__ = ["SimulatedTask", "dispose", "where"]

T = TypeVar("T")

# A `finally` that awaits has to be closed once more; one that loops for ever is left alone after this.
CLOSES_MAX = 32


class SimulatedTask(asyncio.Task[T]):
    """Made by the loop only."""

    def __init__(
        self,
        coroutine: Coroutine[Any, Any, T],
        *,
        number: int,
        incarnation: Incarnation,
        loop: asyncio.AbstractEventLoop,
        name: str | None,
        context: Context | None,
    ) -> None:
        # Before the base class files the task in a set.
        self._number = number
        self.incarnation = incarnation
        super().__init__(coroutine, loop=loop, name=name, context=context)

    def __hash__(self) -> int:
        return self._number


def dispose(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Take apart tasks that will never go on, without a warning.

    Python gives no way to destroy a suspended coroutine without running its `finally`. The caller sees
    to it that those find nothing to act on: loop closed, transports dropped, disk handles stale.
    """
    for task in tasks:
        # asyncio's own switch against "Task was destroyed but it is pending".
        task._log_destroy_pending = False  # type: ignore[attr-defined]  # as asyncio.gather does
        coroutine = task.get_coro()
        for _ in range(CLOSES_MAX):
            try:
                coroutine.close()
            except BaseException:
                continue
            break


def where(task: asyncio.Task[Any]) -> str:
    """Say which task, on which host, waits at which line."""
    incarnation = getattr(task, "incarnation", None)
    place = incarnation.host.name if incarnation is not None else "?"
    frames = task.get_stack(limit=1)
    line = f"{frames[-1].f_code.co_filename}:{frames[-1].f_lineno}" if frames else "not started"
    return f"{task.get_name()} on {place} at {line}"
