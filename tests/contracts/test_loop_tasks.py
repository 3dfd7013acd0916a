"""What tasks, timers and callbacks may rely on."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

Run = Callable[[Coroutine[Any, Any, None]], None]

NAME: contextvars.ContextVar[str] = contextvars.ContextVar("name", default="none")


def test_timers_fire_in_the_order_of_their_times(run: Run) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        fired: list[int] = []
        done = loop.create_future()
        for delay in (3, 1, 2):
            loop.call_later(delay / 100, fired.append, delay)
        loop.call_later(0.05, done.set_result, None)
        await done
        assert fired == [1, 2, 3]

    run(main())


def test_a_cancelled_timer_does_not_fire(run: Run) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        fired: list[str] = []
        when = loop.time() + 0.01
        kept = loop.call_at(when, fired.append, "kept")
        lone = loop.call_at(when + 0.005, fired.append, "lone")
        beside = loop.call_at(when, fired.append, "beside")
        lone.cancel()
        beside.cancel()
        await asyncio.sleep(0.03)
        assert fired == ["kept"]
        assert kept.when() == pytest.approx(when)
        assert lone.cancelled()

    run(main())


def test_sleep_lasts_at_least_as_long_as_asked(run: Run) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        before = loop.time()
        await asyncio.sleep(0.02)
        # A real loop may wake a clock tick early; uvloop's clock counts whole milliseconds.
        assert loop.time() - before >= 0.018

    run(main())


def test_a_timeout_interrupts_what_waits_for_ever(run: Run) -> None:
    async def main() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await asyncio.Event().wait()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.Event().wait(), 0.01)

    run(main())


def test_cancellation_reaches_the_innermost_wait_and_runs_finally(run: Run) -> None:
    async def main() -> None:
        steps: list[str] = []

        async def inner() -> None:
            try:
                await asyncio.sleep(3600)
            finally:
                steps.append("inner")

        async def outer() -> None:
            try:
                await inner()
            finally:
                await asyncio.sleep(0)
                steps.append("outer")

        task = asyncio.create_task(outer())
        await asyncio.sleep(0.001)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert steps == ["inner", "outer"]

    run(main())


def test_a_task_group_cancels_the_others_when_one_fails(run: Run) -> None:
    async def main() -> None:
        cancelled: list[int] = []

        async def wait(number: int) -> None:
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                cancelled.append(number)
                raise

        async def fail() -> None:
            raise LookupError("on purpose")

        with pytest.raises(ExceptionGroup) as caught:
            async with asyncio.TaskGroup() as group:
                for number in range(5):
                    group.create_task(wait(number))
                await asyncio.sleep(0.001)
                group.create_task(fail())
        assert isinstance(caught.value.exceptions[0], LookupError)
        assert sorted(cancelled) == [0, 1, 2, 3, 4]

    run(main())


def test_queues_locks_events_and_semaphores_work(run: Run) -> None:
    async def main() -> None:
        queue: asyncio.Queue[int] = asyncio.Queue(2)
        lock, gate = asyncio.Lock(), asyncio.Semaphore(2)
        taken: list[int] = []

        async def produce() -> None:
            for number in range(10):
                async with lock:
                    await queue.put(number)

        async def consume() -> None:
            for _ in range(10):
                async with gate:
                    taken.append(await queue.get())

        await asyncio.gather(produce(), consume())
        assert taken == list(range(10))

    run(main())


def test_a_context_variable_belongs_to_the_task_that_set_it(run: Run) -> None:
    async def main() -> None:
        async def set_and_read(name: str) -> str:
            NAME.set(name)
            await asyncio.sleep(0.001)
            return NAME.get()

        assert [*await asyncio.gather(set_and_read("a"), set_and_read("b"))] == ["a", "b"]
        assert NAME.get() == "none"

    run(main())


def test_an_exception_in_a_callback_goes_to_the_handler_and_the_loop_goes_on(run: Run) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        complaints: list[dict[str, Any]] = []
        loop.set_exception_handler(lambda _loop, context: complaints.append(context))

        def fail() -> None:
            raise LookupError("on purpose")

        loop.call_soon(fail)
        await asyncio.sleep(0.001)
        assert isinstance(complaints[0]["exception"], LookupError)

    run(main())


def test_work_for_an_executor_returns_its_result_or_its_exception(run: Run) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        assert await loop.run_in_executor(None, sum, [1, 2, 3]) == 6
        assert await asyncio.to_thread(len, b"four") == 4
        with pytest.raises(ZeroDivisionError):
            await loop.run_in_executor(None, divmod, 1, 0)

    run(main())


def test_an_async_generator_left_half_way_is_closed(run: Run) -> None:
    async def main() -> None:
        closed = asyncio.Event()

        async def numbers() -> Any:
            try:
                for number in range(10):
                    yield number
            finally:
                closed.set()

        async for number in numbers():
            if number == 3:
                break
        await closed.wait()

    run(main())
