"""The garbage collector's pauses are counted, and frozen objects do not leak."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Callable, Iterator

import pytest

from equipoise.cli.hub import quiet_watch
from equipoise.hub.shell.collector import YOUNG, Collector
from equipoise.hub.telemetry.stats import Stats
from equipoise.lab.task_pool import settle_collector
from hub.live import live_hub, on_uvloop
from hub.log_world import LogWorld
from hub.metered import FakeProcess
from hub.world import request
from support.polling import until


class Node:
    """An object that can refer to itself."""

    other: Node | None = None


class Timers:
    """Timers that the test fires."""

    def __init__(self) -> None:
        self._callback: Callable[[], object] = lambda: None

    def call_later(self, delay_s: float, callback: Callable[[], object]) -> Timers:
        self._callback = callback
        return self

    def cancel(self) -> None:
        self._callback = lambda: None

    def fire(self) -> None:
        self._callback()


@pytest.fixture
def untouched() -> Iterator[None]:
    """The collector as the tests found it."""
    thresholds = gc.get_threshold()
    yield
    gc.set_threshold(*thresholds)
    gc.unfreeze()
    settle_collector()


def circle() -> weakref.ref[Node]:
    one, other = Node(), Node()
    one.other, other.other = other, one
    return weakref.ref(one)


def test_pauses_are_counted_and_survivors_are_not_scanned_again(untouched: None) -> None:
    stats, timers = Stats(), Timers()
    collector = Collector(stats, lambda: False, timers.call_later)
    collector.begin()
    try:
        before = gc.get_freeze_count()
        kept = [[n] for n in range(3 * YOUNG)]
        assert stats.gc_pauses >= 2
        assert 0 < stats.gc_pause_s_max <= stats.gc_pause_s
        assert gc.get_freeze_count() >= before + YOUNG
        assert len(kept) == 3 * YOUNG
    finally:
        collector.end()


def test_frozen_objects_are_collected_once_no_message_flows(untouched: None) -> None:
    """
    1. A circle of objects is made, and survives a young collection: it is frozen.
    2. It is not used any more. While messages flow it stays.
    3. No message flows for a while: it goes.
    """
    stats, timers, is_quiet = Stats(), Timers(), False
    collector = Collector(stats, lambda: is_quiet, timers.call_later)
    collector.begin()
    try:
        found = circle()
        held = found()
        gc.collect(0)
        held = None
        gc.collect(0)
        for _ in range(20):
            timers.fire()
        assert found() is not None
        is_quiet = True
        for _ in range(20):
            timers.fire()
        assert found() is None
        assert held is None
        assert stats.gc_full == 1, "once: nothing was frozen since"
    finally:
        collector.end()


@on_uvloop
async def test_closed_connections_leave_nothing_to_collect() -> None:
    """Each publishes and subscribes to topics; none leaves an object that only the collector could free."""
    async with live_hub() as hub:

        async def come_and_go(n: int) -> None:
            reader, writer = await asyncio.open_connection("127.0.0.1", hub.port)
            writer.write(
                request("SUBSCRIBE", f"t{n % 7}") + request("UNSUBSCRIBE") + request("PUBLISH", "t", "x")
            )
            writer.write(request("HELLO", "3"))
            await reader.readuntil(b"proto")
            writer.close()
            await writer.wait_closed()

        await come_and_go(0)
        gc.collect()
        gc.disable()
        gc.set_debug(gc.DEBUG_SAVEALL)
        try:
            for n in range(200):
                await come_and_go(n)
            await until(lambda: not hub.core.sessions)
            gc.collect()
            # Those of the test's own connections are in the list, too.
            left = {type(one).__qualname__ for one in gc.garbage if _is_ours(one)}
        finally:
            gc.set_debug(0)
            gc.garbage.clear()
            gc.enable()
        assert left == set()


def _is_ours(one: object) -> bool:
    return type(one).__module__.startswith("equipoise")


def test_a_hub_whose_logs_grow_is_not_quiet() -> None:
    """Else everything would be collected every second beside XADDs."""
    world = LogWorld()
    world.core.metering.start(FakeProcess(), lambda count: b"x" * count)
    client, is_quiet = world.client(), quiet_watch(world.core)
    assert world.core.metering.is_on and is_quiet()
    world.do(client, "XADD", "t", "*", "f", "v")
    assert not is_quiet()
    assert is_quiet()


def test_a_hub_that_opens_a_log_is_not_quiet() -> None:
    """Else everything would be collected every second while a hub opens the logs of a dead one."""
    world = LogWorld()
    world.opens, is_quiet = False, quiet_watch(world.core)
    assert is_quiet()
    logs = world.core.logs
    assert logs is not None
    log = logs.of(b"t")
    assert not is_quiet()
    log.not_opened("the store does not answer")
    assert is_quiet()
