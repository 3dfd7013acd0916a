"""Run asyncio programs in virtual time: the calls such programs make on a loop.

One loop stands for the loops of all simulated hosts; which host a call is for is read from its context.
What runs next is decided in `engine`, sockets are answered in `sockets`, the rest is refused in `refusals`.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context, copy_context
from functools import partial
from typing import Any, TextIO, TypeVar, TypeVarTuple

from equipoise.errors import SimulationError
from equipoise.lab.simulation.incarnation import HERE, Incarnation, SimulatedTimer
from equipoise.lab.simulation.sockets import SocketCalls
from equipoise.lab.simulation.task import SimulatedTask, dispose, where

__all__ = ["ExecutorCall", "SimulatedLoop"]

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

TASKS_NAMED_MAX = 20


class ExecutorCall:
    """A function that runs in a thread, as far as it waits: for how long, and what has happened at the end."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._ends: list[Callable[[], None]] = []

    def wait(self, seconds: float, end: Callable[[], None]) -> None:
        self.seconds += seconds
        self._ends.append(end)

    def settle(self) -> None:
        """What was waited for has happened."""
        ends, self._ends = self._ends, []
        for end in ends:
            end()


def _set_result(future: asyncio.Future[T], result: T) -> None:
    if not future.done():
        future.set_result(result)


def _set_exception(future: asyncio.Future[Any], error: Exception) -> None:
    if not future.done():
        future.set_exception(error)


class SimulatedLoop(SocketCalls):
    """Owned by a `Simulation`, which sets `network` and `outside` before anything is called."""

    def __init__(
        self,
        seed: int,
        *,
        split: float = 0.0,
        shuffle: bool = False,
        time_s_max: float = 1e6,
        steps_max: int = 100_000_000,
        sink: TextIO | None = None,
    ) -> None:
        super().__init__(
            seed, split=split, shuffle=shuffle, time_s_max=time_s_max, steps_max=steps_max, sink=sink
        )
        # What asyncio would have logged: callbacks that raised, exceptions nobody retrieved.
        self.unhandled: list[dict[str, Any]] = []
        # Tasks started from outside by `Host.spawn`, to look for their exceptions in the end.
        self.spawned: list[asyncio.Task[Any]] = []
        # The function that "runs in a thread" at this moment, if any.
        self.executor_call: ExecutorCall | None = None
        self._tasks_made = 0
        self._owner = threading.get_ident()
        self._dead_tasks: list[asyncio.Task[Any]] = []

    def time(self) -> float:
        return self.now

    def get_debug(self) -> bool:
        """Never: asyncio's debug mode measures real time and keeps tracebacks of everything."""
        return False

    def call_soon(
        self,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.Handle:
        if context is None:
            context = copy_context()
        handle = asyncio.Handle(callback, args, self, context)
        incarnation = context.get(HERE, self.outside)
        # As `enqueue`, without the call: this is the most frequent path of all.
        if not incarnation.is_dead:
            incarnation.ready.append(handle)
            if not incarnation.is_active:
                incarnation.is_active = True
                self._active.append(incarnation)
        return handle

    def call_at(
        self,
        when: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        if context is None:
            context = copy_context()
        timer = SimulatedTimer(when, callback, args, self, context)
        timer.incarnation = context.get(HERE, self.outside)
        if when <= self.now:
            self.enqueue(timer.incarnation, timer)
        else:
            self.timeline.add(when, timer)
        return timer

    def call_soon_threadsafe(
        self,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.Handle:
        if threading.get_ident() != self._owner:
            raise SimulationError("a call from another thread cannot be simulated; do its work inline")
        return self.call_soon(callback, *args, context=context)

    def create_task(
        self,
        coro: Generator[Any, None, T] | Coroutine[Any, Any, T],
        *,
        name: object = None,
        context: Context | None = None,
        **_: object,
    ) -> asyncio.Task[T]:
        if self.is_closed():
            coro.close()
            raise RuntimeError("Event loop is closed")
        self._tasks_made += 1
        return SimulatedTask(
            coro,  # type: ignore[arg-type]  # generators are let through for asyncio's sake
            number=self._tasks_made,
            incarnation=HERE.get(self.outside) if context is None else context.get(HERE, self.outside),
            loop=self,
            name=None if name is None else str(name),
            context=context,
        )

    def run_in_executor(self, executor: object, func: Callable[[*Ts], T], *args: *Ts) -> asyncio.Future[T]:
        """Call the function here and now. Its result comes at once, or after the time that it spent on disk syncs."""
        future: asyncio.Future[T] = self.create_future()
        call = self.executor_call = ExecutorCall()
        try:
            result = func(*args)
            finish = partial(_set_result, future, result)
        except Exception as error:
            finish = partial(_set_exception, future, error)
        finally:
            self.executor_call = None
        if not call.seconds:
            finish()
            return future
        # The disk goes on while the host is paused: what becomes durable does so outside of its context.
        self.timeline.add(self.now + call.seconds, call.settle)
        self.call_at(self.now + call.seconds, finish)
        return future

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if not self.is_closed():
            super().call_exception_handler(context)

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        """Keep what asyncio would have logged; `Simulation.run` fails over it.

        A cancellation is no failure: streams of Python 3.11 report that of a handler by mistake.
        """
        if not isinstance(context.get("exception"), asyncio.CancelledError):
            self.unhandled.append(context)

    def collect_failures(self) -> None:
        """Add to `unhandled` the exceptions of spawned tasks that nobody has retrieved."""
        for task in self.spawned:
            # asyncio's own mark for an exception that it would log when the task is collected.
            if task.done() and getattr(task, "_log_traceback", False):
                text = f"{where(task)} failed and nobody looked"
                self.unhandled.append({"message": text, "exception": task.exception(), "task": task})
        self.spawned = [task for task in self.spawned if not task.done()]

    def bury(self, incarnation: Incarnation) -> None:
        """Keep the tasks of a crashed incarnation from being collected, which would run `finally`."""
        self._dead_tasks.extend(task for task in self._pending() if task.incarnation is incarnation)

    def describe_waiting(self) -> str:
        return "".join(f"\n  {where(task)}" for task in self._pending()[:TASKS_NAMED_MAX])

    def close(self) -> None:
        """Take down everything that is still there, silently."""
        if self.is_closed():
            return
        pending = [*self._dead_tasks, *self._pending()]
        self._dead_tasks = []
        super().close()
        dispose(pending)
        self._forget_everything()

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """asyncio's hook: called by a timer that is cancelled."""
        self.timeline.discard(handle.when())

    def _pending(self) -> list[SimulatedTask[Any]]:
        tasks = [task for task in asyncio.all_tasks(self) if isinstance(task, SimulatedTask)]
        return sorted(tasks, key=hash)
