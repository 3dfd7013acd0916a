"""Run many independent calls: in this process, in several, or as jobs of Spark.

A task is a function and one argument, both picklable. Its result depends on the argument alone, so the kind of pool
changes only the order and the duration of results. Spark reruns the tasks of a lost worker.

Always true: each argument has one result; while a task runs, the current pool is serial and Spark is unavailable, in
every kind of pool, so that a task that runs further tasks gives the same result everywhere.
"""

from __future__ import annotations

import gc
import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeVar

from equipoise.errors import PipelineError, SettingsError

if TYPE_CHECKING:
    from equipoise.pipeline.spark.session import SparkDriver

__all__ = ["ProcessPool", "SerialPool", "SparkPool", "TaskPool", "current_pool", "is_task", "task_pool"]

T = TypeVar("T")
R = TypeVar("R")
# Concurrent Spark jobs: one per core for clusters of up to this many cores, with a driver thread each.
JOBS_IN_FLIGHT = 64


class TaskPool(Protocol):
    """Where tasks run."""

    def run(self, function: Callable[[T], R], arguments: Sequence[T]) -> Iterator[tuple[int, R]]:
        """The results as they arrive, each with the index of its argument."""


class SerialPool:
    """In this process, one after the other, in order."""

    def run(self, function: Callable[[T], R], arguments: Sequence[T]) -> Iterator[tuple[int, R]]:
        for index, argument in enumerate(arguments):
            yield index, _call(function, argument)


class ProcessPool:
    """In processes of this machine."""

    def __init__(self, processes: int) -> None:
        self._processes = processes

    def run(self, function: Callable[[T], R], arguments: Sequence[T]) -> Iterator[tuple[int, R]]:
        if len(arguments) < 2:
            yield from SerialPool().run(function, arguments)
            return
        # Spawned, not forked: a fork would copy the parent's loop, locks and progress bar.
        context = multiprocessing.get_context("spawn")
        with context.Pool(min(self._processes, len(arguments)), settle_collector) as pool:
            yield from pool.imap_unordered(partial(_call_numbered, function), list(enumerate(arguments)))


class SparkPool:
    """On the executors of a Spark session. Each task is a job, so its result arrives as soon as it is done."""

    def __init__(self, driver: SparkDriver) -> None:
        self.driver = driver

    def run(self, function: Callable[[T], R], arguments: Sequence[T]) -> Iterator[tuple[int, R]]:
        context = self.driver.session.sparkContext

        def one(index: int) -> tuple[int, R]:
            (result,) = context.parallelize([arguments[index]], 1).map(partial(_call, function)).collect()
            return index, result

        threads = ThreadPoolExecutor(JOBS_IN_FLIGHT, thread_name_prefix="spark-job")
        waiting: set[Future[tuple[int, R]]] = {threads.submit(one, index) for index in range(len(arguments))}
        try:
            while waiting:
                done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                for each in done:
                    yield _result(each)
        finally:
            if waiting:
                context.cancelAllJobs()
            threads.shutdown(wait=True, cancel_futures=True)


@contextmanager
def task_pool(*, master: str = "", jobs: int = 1) -> Iterator[TaskPool]:
    """The pool of this block, and its current one: Spark at `master`, `jobs` processes, or this process.

    Raises SettingsError if both are given, PipelineError if Spark does not start.
    """
    if master and jobs > 1:
        raise SettingsError("--jobs is for processes of this machine, --master for Spark: give one of them")
    if not master:
        with _used(SerialPool() if jobs == 1 else ProcessPool(jobs)) as pool:
            yield pool
        return
    # Imported here, so that only runs on Spark load it.
    from equipoise.pipeline.settings import SessionSettings
    from equipoise.pipeline.spark.session import SparkDriver, address_towards

    driver = SparkDriver.start(SessionSettings(master=master, driver_host=address_towards(master)))
    try:
        with _used(SparkPool(driver)) as pool:
            yield pool
    finally:
        driver.stop()


def current_pool() -> TaskPool:
    """The innermost open pool; a serial pool inside a task or without an open pool."""
    return _current.get()


def is_task() -> bool:
    """Whether a task is the caller."""
    return _is_task.get()


def settle_collector() -> None:
    """Exclude all present objects from garbage collection, which would traverse them again and again."""
    gc.collect()
    gc.freeze()


@contextmanager
def settled_collector() -> Iterator[None]:
    """The same for a time. Objects that were excluded before stay so."""
    # Counts them one by one: some milliseconds.
    if gc.get_freeze_count():
        yield
        return
    settle_collector()
    try:
        yield
    finally:
        gc.unfreeze()


_current: ContextVar[TaskPool] = ContextVar("current_pool", default=SerialPool())  # noqa: B039  # It has no state.
_is_task: ContextVar[bool] = ContextVar("is_task", default=False)


@contextmanager
def _used(pool: TaskPool) -> Iterator[TaskPool]:
    token = _current.set(pool)
    try:
        yield pool
    finally:
        _current.reset(token)


def _call(function: Callable[[T], R], argument: T) -> R:
    mark = _is_task.set(True)
    try:
        with _used(SerialPool()):
            return function(argument)
    finally:
        _is_task.reset(mark)


def _call_numbered(function: Callable[[T], R], argument: tuple[int, T]) -> tuple[int, R]:
    return argument[0], _call(function, argument[1])


def _result(done: Future[tuple[int, R]]) -> tuple[int, R]:
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # It ships no types.
    from pyspark.errors import PySparkException

    try:
        return done.result()
    except (Py4JError, PySparkException) as problem:
        raise PipelineError(f"a task failed on Spark: {_last_line(str(problem))}") from problem


def _last_line(text: str) -> str:
    """The line that names the error in a Python traceback inside a Java one."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    named = [line for line in lines if "Error" in line and not line.startswith("at ")]
    return named[-1] if named else (lines[0] if lines else "no reason given")
