"""Closing flushes within limits, iterations end, cancellation passes through, and no state is left."""

from __future__ import annotations

import asyncio

import pytest

import equipoise
import equipoise.errors
from equipoise import Message, Position
from equipoise.client.inbox import Batch
from equipoise.errors import ClosedError, DisconnectedError, MisuseError, RefusedError, UncertainError
from support.polling import until

from .peer import always, connect, message, on_loop, serving

QUICK = equipoise.ClientSettings(reconnect_first_s=0.01, reconnect_max_s=0.05)


def others() -> list[asyncio.Task[object]]:
    """Every task but the one that asks."""
    return [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]


@on_loop
async def test_closing_waits_for_the_last_receipts() -> None:
    async with serving() as peer:
        async with connect(peer.url) as bus:
            for i in range(10):
                bus.publish_nowait("a", str(i))
        assert peer.last.count(b"PUBLISH") == 10
        await peer.until(lambda: not peer.last.is_open)


@on_loop
async def test_closing_raises_an_error_that_was_not_reported_before() -> None:
    async with serving() as peer:
        peer.answers[b"PUBLISH"] = always(b"-ERR no\r\n")
        with pytest.raises(RefusedError, match="ERR no"):
            async with connect(peer.url) as bus:
                bus.publish_nowait("a", "x")
        await peer.until(lambda: not peer.last.is_open)


@on_loop
async def test_closing_does_not_wait_for_ever() -> None:
    async with serving() as peer:
        peer.answers.update({b"PUBLISH": always(None), b"PING": always(None)})
        with pytest.raises(UncertainError):
            async with connect(peer.url, close_timeout_s=0.02) as bus:
                bus.publish_nowait("a", "x")
        await peer.until(lambda: not peer.last.is_open)
        assert others() == []


@on_loop
async def test_closing_ends_every_iteration_cleanly_after_what_was_received() -> None:
    async with serving() as peer:
        async with connect(peer.url) as bus:
            a, idle = bus.subscribe("a", "b"), bus.psubscribe("i*")
            await a.__aenter__()
            await idle.__aenter__()
            waiting = asyncio.create_task(anext(idle, None))
            peer.last.send(message(b"a", 1, 1, b"x"))
            await until(lambda: a.pending)
        assert await waiting is None
        assert [event async for event in a] == [Message("a", b"x", Position(1, 1))]


@on_loop
async def test_a_closed_bus_raises_and_may_be_closed_again() -> None:
    async with serving() as peer:
        async with connect(peer.url) as bus:
            unused = bus.subscribe("a")
        with pytest.raises(ClosedError, match="call connect"):
            await bus.publish("a", "x")
        with pytest.raises(ClosedError):
            bus.publish_nowait("a", "x")
        with pytest.raises(ClosedError):
            await bus.flush()
        with pytest.raises(ClosedError):
            bus.psubscribe("a")
        with pytest.raises(ClosedError):
            await unused.__aenter__()
        with pytest.raises(MisuseError, match="entered once"):
            await bus.__aenter__()
        await bus.close()


@on_loop
async def test_closing_raises_in_waiting_calls() -> None:
    async with serving() as peer:
        peer.answers.update({b"PUBLISH": always(None), b"EQ.SUBSCRIBE": always(None), b"PING": always(None)})
        bus = connect(peer.url, in_flight_messages_max=1, close_timeout_s=0.02)
        await bus.__aenter__()
        sent = asyncio.create_task(bus.publish("a", "sent"))
        in_line = asyncio.create_task(bus.publish("a", "in line"))
        entering = asyncio.create_task(bus.subscribe("a").__aenter__())
        await peer.until(lambda: peer.last.count(b"PUBLISH") == 1)
        with pytest.raises(equipoise.errors.WorldError):
            await bus.close()
        results = await asyncio.gather(sent, in_line, entering, return_exceptions=True)
        assert [type(result) for result in results] == [UncertainError, ClosedError, ClosedError]


@on_loop
async def test_closing_while_disconnected_is_quick_and_leaves_no_task() -> None:
    async with serving() as peer:
        async with connect(peer.url, reconnect_first_s=4.0) as bus:
            await peer.stop()
            await until(lambda: not bus.is_connected)
            assert len(others()) >= 1
        assert others() == []


@on_loop
async def test_an_exception_in_the_body_passes_through_and_does_not_wait_for_receipts() -> None:
    async with serving() as peer:
        peer.answers.update({b"PUBLISH": always(None), b"PING": always(None)})
        with pytest.raises(ZeroDivisionError):
            async with connect(peer.url, close_timeout_s=60) as bus:
                bus.publish_nowait("a", "x")
                raise ZeroDivisionError
        await peer.until(lambda: not peer.last.is_open)
        assert peer.last.count(b"PUBLISH") == 1, "what was published has still been sent"


@on_loop
async def test_cancelling_a_publish_keeps_the_replies_in_step() -> None:
    async with serving() as peer, connect(peer.url, in_flight_messages_max=2) as bus:
        peer.answers[b"PUBLISH"] = always(None)
        publishes = [asyncio.create_task(bus.publish("a", str(i))) for i in range(4)]
        await peer.until(lambda: peer.last.count(b"PUBLISH") == 2)
        publishes[0].cancel()
        publishes[2].cancel()
        peer.last.send(b":10\r\n:11\r\n")
        await peer.until(lambda: peer.last.count(b"PUBLISH") == 3)
        peer.last.send(b":13\r\n")
        results = await asyncio.gather(*publishes, return_exceptions=True)
        assert [type(results[i]) for i in (0, 2)] == [asyncio.CancelledError] * 2
        assert [results[1], results[3]] == [equipoise.Receipt(11), equipoise.Receipt(13)]
        assert peer.last.requests[-1][2] == b"3", "the one cancelled in line was never sent"


@on_loop
async def test_cancelling_an_entry_unsubscribes_the_name() -> None:
    async with serving() as peer, connect(peer.url) as bus:
        confirm = peer.answers[b"EQ.SUBSCRIBE"]
        peer.answers[b"EQ.SUBSCRIBE"] = always(None)
        entering = asyncio.create_task(bus.subscribe("a").__aenter__())
        await peer.until(lambda: peer.last.count(b"EQ.SUBSCRIBE") == 1)
        entering.cancel()
        with pytest.raises(asyncio.CancelledError):
            await entering
        peer.last.send(confirm(peer.last, [b"EQ.SUBSCRIBE", b"a"]) or b"")
        await peer.until(lambda: peer.last.count(b"EQ.UNSUBSCRIBE") == 1)
        peer.answers[b"EQ.SUBSCRIBE"] = confirm
        async with bus.subscribe("a") as again:
            peer.last.send(message(b"a", 1, 1, b"x"))
            assert await anext(again) == Message("a", b"x", Position(1, 1))


@pytest.mark.parametrize("is_cancelled_first", [True, False])
@on_loop
async def test_cancelling_an_iteration_loses_no_message(is_cancelled_first: bool) -> None:
    async with serving() as peer, connect(peer.url) as bus, bus.subscribe("a") as a:
        for n in range(1, 5):
            waiting = asyncio.ensure_future(anext(a))
            await asyncio.sleep(0)
            # Both in one turn of the loop, before the waiting task can run.
            if is_cancelled_first:
                waiting.cancel()
            a.on_batch(Batch("a", None, 1, n, [b"x"]))
            if not is_cancelled_first:
                waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            assert await anext(a) == Message("a", b"x", Position(1, n))


@on_loop
async def test_cancelling_a_flush_leaves_the_bus_usable() -> None:
    async with serving() as peer, connect(peer.url) as bus:
        peer.answers.update({b"PUBLISH": always(None), b"PING": always(None)})
        bus.publish_nowait("a", "x")
        flush = asyncio.create_task(bus.flush())
        await peer.until(lambda: peer.last.count(b"PING") == 1)
        flush.cancel()
        with pytest.raises(asyncio.CancelledError):
            await flush
        peer.answers.update({b"PUBLISH": always(b":5\r\n"), b"PING": always(b"+PONG\r\n")})
        peer.last.send(b":1\r\n+PONG\r\n")
        assert (await bus.publish("a", "y")).receivers == 5


@on_loop
async def test_cancelling_the_first_connection_closes_it() -> None:
    async with serving() as peer:
        peer.answers[b"HELLO"] = always(None)
        entering = asyncio.create_task(connect(peer.url).__aenter__())
        await peer.until(lambda: peer.sessions and peer.last.count(b"HELLO") == 1)
        entering.cancel()
        with pytest.raises(asyncio.CancelledError):
            await entering
        await peer.until(lambda: not peer.last.is_open)
        assert others() == []


@on_loop
async def test_cancelling_a_close_still_closes() -> None:
    async with serving() as peer:
        peer.answers.update({b"PUBLISH": always(None), b"PING": always(None)})
        bus = connect(peer.url, close_timeout_s=60)
        await bus.__aenter__()
        bus.publish_nowait("a", "x")
        closing = asyncio.create_task(bus.close())
        await peer.until(lambda: peer.last.count(b"PING") == 1)
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        await peer.until(lambda: not peer.last.is_open)
        assert others() == []


@on_loop
async def test_closing_in_the_middle_of_a_reconnection_closes_that_too() -> None:
    async with serving() as peer, connect(peer.url, settings=QUICK):
        greet = peer.answers[b"HELLO"]
        peer.answers[b"HELLO"] = always(None)
        peer.last.reset()
        await peer.until(lambda: len(peer.sessions) == 2 and peer.last.count(b"HELLO") == 1)
        peer.answers[b"HELLO"] = greet
    assert len(peer.sessions) == 2
    assert not peer.last.is_open


@on_loop
async def test_a_subscription_left_while_disconnected_is_not_requested_again() -> None:
    async with serving() as peer, connect(peer.url, settings=QUICK) as bus:
        async with bus.subscribe("a"):
            await peer.stop()
            await until(lambda: not bus.is_connected)
            with pytest.raises(DisconnectedError):
                bus.publish_nowait("a", "x")
        await peer.start()
        await bus.publish("a", "back")
        assert peer.last.count(b"EQ.SUBSCRIBE") == 0
