"""Publishing: receipts, the window, flush, and errors when a message cannot be sent."""

from __future__ import annotations

import asyncio

import pytest

import equipoise
from equipoise.errors import (
    BackloggedError,
    DeniedError,
    DisconnectedError,
    LimitError,
    MisuseError,
    RefusedError,
    UncertainError,
)
from support.polling import until

from .peer import Session, always, connect, on_loop, serving


@on_loop
async def test_a_publish_returns_the_number_of_receivers() -> None:
    async with serving() as peer, connect(peer.url) as bus:
        peer.answers[b"PUBLISH"] = always(b":3\r\n")
        assert await bus.publish("a", b"payload") == equipoise.Receipt(3)
        assert peer.last.requests[-1] == [b"PUBLISH", b"a", b"payload"]


@on_loop
async def test_everything_published_in_one_turn_of_the_loop_leaves_in_one_write() -> None:
    async with serving() as peer, connect(peer.url) as bus:
        await bus.publish("a", "settle")
        reads = peer.last.reads
        for i in range(50):
            bus.publish_nowait("a", str(i))
        await asyncio.gather(*(bus.publish("b", str(i)) for i in range(50)))
        assert peer.last.reads == reads + 1
        assert [request[2] for request in peer.last.requests[-100:]] == [b"%d" % i for i in range(50)] * 2


@on_loop
async def test_each_receipt_goes_to_its_own_publisher_however_the_replies_are_cut() -> None:
    async with serving() as peer, connect(peer.url) as bus:
        peer.answers[b"PUBLISH"] = always(None)
        publishes = [asyncio.create_task(bus.publish("a", str(i))) for i in range(20)]
        await peer.until(lambda: peer.last.count(b"PUBLISH") == 20)
        replies = b"".join(b":%d\r\n" % i for i in range(20))
        for i in range(len(replies)):
            peer.last.send(replies[i : i + 1])
            await asyncio.sleep(0)
        assert [receipt.receivers for receipt in await asyncio.gather(*publishes)] == list(range(20))


@on_loop
async def test_a_full_window_makes_publish_wait_and_publish_nowait_raise() -> None:
    async with serving() as peer, connect(peer.url, in_flight_messages_max=3) as bus:
        peer.answers[b"PUBLISH"] = always(None)
        for i in range(3):
            bus.publish_nowait("a", str(i))
        with pytest.raises(
            BackloggedError, match=r"3 publishes \(3 bytes\) have no receipt yet; await flush"
        ):
            bus.publish_nowait("a", "3")
        waiting = [asyncio.create_task(bus.publish("a", str(i))) for i in (3, 4)]
        await peer.until(lambda: peer.last.count(b"PUBLISH") == 3)
        peer.last.send(b":1\r\n")
        await peer.until(lambda: peer.last.count(b"PUBLISH") == 4)
        with pytest.raises(BackloggedError):
            bus.publish_nowait("a", "no place before those who wait")
        peer.last.send(b":1\r\n:1\r\n:7\r\n")
        await peer.until(lambda: peer.last.count(b"PUBLISH") == 5)
        peer.last.send(b":8\r\n")
        assert [receipt.receivers for receipt in await asyncio.gather(*waiting)] == [7, 8]
        assert [request[2] for request in peer.last.requests[-5:]] == [b"0", b"1", b"2", b"3", b"4"]


@on_loop
async def test_the_window_is_bounded_in_bytes_too() -> None:
    limits = equipoise.ClientSettings(in_flight_bytes_max=2048, payload_bytes_max=2048)
    async with serving() as peer, connect(peer.url, settings=limits) as bus:
        peer.answers[b"PUBLISH"] = always(None)
        bus.publish_nowait("a", b"x" * 2000)
        with pytest.raises(BackloggedError):
            bus.publish_nowait("a", b"x" * 49)
        bus.publish_nowait("a", b"x" * 48)
        peer.answers[b"PING"] = always(b":1\r\n:1\r\n+PONG\r\n")
        await bus.flush()
        bus.publish_nowait("a", b"x" * 2048)
        peer.answers[b"PING"] = always(b":1\r\n+PONG\r\n")


@on_loop
async def test_a_publish_that_found_no_room_in_time_was_not_sent() -> None:
    async with serving() as peer, connect(peer.url, in_flight_messages_max=1) as bus:
        peer.answers[b"PUBLISH"] = always(None)
        bus.publish_nowait("a", "first")
        with pytest.raises(BackloggedError, match="not sent; publish less at a time"):
            await bus.publish("a", "second", timeout_s=0.01)
        peer.last.send(b":1\r\n")
        await bus.flush()
        assert [r[2] for r in peer.last.requests if r[0] == b"PUBLISH"] == [b"first"]


@on_loop
async def test_a_payload_over_the_limit_is_rejected_before_it_is_sent() -> None:
    async with serving() as peer, connect(peer.url, payload_bytes_max=4) as bus:
        await bus.publish("a", "1234")
        with pytest.raises(LimitError, match="has 5 bytes, over payload_bytes_max = 4; split it"):
            await bus.publish("a", "12345")
        with pytest.raises(LimitError):
            bus.publish_nowait("a", "12345")
        assert peer.last.count(b"PUBLISH") == 1


@on_loop
async def test_a_rejected_publish_raises_the_hubs_error_and_a_remedy() -> None:
    async with serving() as peer, connect(peer.url) as bus:
        peer.answers[b"PUBLISH"] = always(b"-NOPERM no permission to publish to 'a'\r\n")
        with pytest.raises(DeniedError, match="publish to 'a'; ask the operator of the hub") as denied:
            await bus.publish("a", "x")
        assert denied.value.code == "NOPERM"
        peer.answers[b"PUBLISH"] = always(b"-ERR topic name too long\r\n")
        with pytest.raises(RefusedError, match="topic name too long") as refused:
            await bus.publish("a", "x")
        assert refused.value.code == "ERR"
        assert not isinstance(refused.value, DeniedError)


@on_loop
async def test_flush_waits_for_published_messages_and_raises_the_first_error_once() -> None:
    async with serving() as peer, connect(peer.url) as bus:

        def answer(session: Session, request: list[bytes]) -> bytes:
            return b":1\r\n" if request[2] == b"good" else b"-ERR %b is bad\r\n" % request[2]

        peer.answers[b"PUBLISH"] = answer
        for payload in ("good", "one", "good", "two"):
            bus.publish_nowait("a", payload)
        with pytest.raises(RefusedError, match="one is bad") as caught:
            await bus.flush()
        assert "the first of 2" in caught.value.__notes__[0]
        await bus.flush()


@on_loop
async def test_flush_with_no_message_in_flight_sends_nothing() -> None:
    async with serving() as peer, connect(peer.url) as bus:
        await bus.publish("a", "x")
        await bus.flush()
        assert peer.last.count(b"PING") == 0


@on_loop
async def test_a_flush_that_is_not_answered_in_time_raises() -> None:
    async with serving() as peer, connect(peer.url) as bus:
        peer.answers.update({b"PUBLISH": always(None), b"PING": always(None)})
        bus.publish_nowait("a", "x")
        with pytest.raises(UncertainError, match=r"no receipt within 0\.01 s"):
            await bus.flush(timeout_s=0.01)
        peer.answers[b"PING"] = always(b"+PONG\r\n")
        peer.last.send(b":1\r\n+PONG\r\n")
        await bus.flush()


@on_loop
async def test_a_receipt_that_does_not_come_in_time_leaves_the_publisher_uncertain() -> None:
    async with serving() as peer, connect(peer.url) as bus:
        peer.answers[b"PUBLISH"] = always(None)
        with pytest.raises(UncertainError, match="may or may not have been delivered"):
            await bus.publish("a", "late", timeout_s=0.01)
        peer.last.send(b":1\r\n")
        peer.answers[b"PUBLISH"] = always(b":2\r\n")
        assert (await bus.publish("a", "next")).receivers == 2, "the late reply went to the late publish"


@on_loop
async def test_a_lost_connection_leaves_messages_in_flight_uncertain_and_resends_none() -> None:
    async with serving() as peer, connect(peer.url, reconnect_first_s=0.01) as bus:
        peer.answers[b"PUBLISH"] = always(None)
        bus.publish_nowait("a", "nowait 1")
        bus.publish_nowait("a", "nowait 2")
        publish = asyncio.create_task(bus.publish("a", "with receipt"))
        await peer.until(lambda: peer.last.count(b"PUBLISH") == 3)
        peer.last.reset()
        with pytest.raises(UncertainError, match="only if a duplicate does no harm"):
            await publish
        with pytest.raises(UncertainError) as caught:
            await bus.flush()
        assert "the first of 2" in caught.value.__notes__[0]
        peer.answers[b"PUBLISH"] = always(b":1\r\n")
        await bus.publish("a", "after")
        assert [r[2] for r in peer.last.requests if r[0] == b"PUBLISH"] == [b"after"]


@on_loop
async def test_a_flush_interrupted_by_a_lost_connection_is_uncertain() -> None:
    async with serving() as peer, connect(peer.url, reconnect_first_s=0.01) as bus:
        peer.answers.update({b"PUBLISH": always(None), b"PING": always(None)})
        bus.publish_nowait("a", "x")
        flush = asyncio.create_task(bus.flush())
        await peer.until(lambda: peer.last.count(b"PING") == 1)
        peer.last.reset()
        with pytest.raises(UncertainError):
            await flush


@on_loop
async def test_without_a_connection_publish_waits_for_one_and_publish_nowait_raises() -> None:
    async with serving() as peer, connect(peer.url, reconnect_first_s=0.01) as bus:
        await peer.stop()
        await until(lambda: not bus.is_connected)
        publishes = [asyncio.create_task(bus.publish("a", str(i))) for i in range(3)]
        with pytest.raises(DisconnectedError, match=r"publish\(\) waits for one"):
            bus.publish_nowait("a", "x")
        await peer.start()
        await asyncio.gather(*publishes)
        assert [r[2] for r in peer.last.requests if r[0] == b"PUBLISH"] == [b"0", b"1", b"2"]


@on_loop
async def test_a_publish_that_found_no_connection_in_time_was_not_sent() -> None:
    async with serving() as peer, connect(peer.url, reconnect_first_s=0.01) as bus:
        await peer.stop()
        await until(lambda: not bus.is_connected)
        with pytest.raises(DisconnectedError, match=r"no connection to a hub for 0\.02 s, so .* not sent"):
            await bus.publish("a", "x", timeout_s=0.02)
        await peer.start()
        await bus.publish("a", "y")
        assert [r[2] for r in peer.last.requests if r[0] == b"PUBLISH"] == [b"y"]


@on_loop
async def test_a_bus_that_was_not_entered_raises_with_the_usage() -> None:
    bus = connect("equipoise://127.0.0.1:1")
    with pytest.raises(MisuseError, match="use it inside `async with"):
        await bus.publish("a", "x")
    with pytest.raises(MisuseError, match="use it inside `async with"):
        bus.subscribe("a")
    await bus.close()
