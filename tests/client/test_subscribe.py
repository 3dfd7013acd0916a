"""Subscribing: confirmation, sharing, positions, the full queue, rejections."""

from __future__ import annotations

import asyncio

import pytest
import uvloop

import equipoise
from equipoise import Event, Gap, GapReason, Message, Position
from equipoise.errors import DeniedError, DisconnectedError, MisuseError, RefusedError
from support.polling import until

from .peer import always, connect, message, on_loop, push, serving


async def take(subscription: equipoise.Subscription, count: int) -> list[Event]:
    async with asyncio.timeout(30):
        return [await anext(subscription) for _ in range(count)]


@on_loop
async def test_entering_waits_until_the_hub_has_confirmed_every_name() -> None:
    async with serving() as peer, connect(peer.url) as bus:
        peer.answers[b"EQ.SUBSCRIBE"] = always(None)
        entering = asyncio.create_task(bus.subscribe("a", "b", "a").__aenter__())
        await peer.until(lambda: peer.last.count(b"EQ.SUBSCRIBE") == 2)
        peer.last.send(push(b"eq.subscribe", b"a", 1, 1, 0))
        peer.last.send(push(b"some-other-push", b"x"))
        async with bus.subscribe("a"):
            assert not entering.done(), "b is not confirmed yet"
        peer.last.send(push(b"eq.subscribe", b"b", 2, 1, 0))
        (await entering).close()


@on_loop
async def test_messages_come_in_order_with_topic_payload_and_position() -> None:
    async with serving() as peer, connect(peer.url) as bus, bus.subscribe("a", "b") as both:
        peer.last.send(message(b"a", 1, 1, b"x", b"y") + message(b"b", 1, 1, b"z"))
        assert await take(both, 3) == [
            Message("a", b"x", Position(1, 1)),
            Message("a", b"y", Position(1, 2)),
            Message("b", b"z", Position(1, 1)),
        ]


@on_loop
async def test_any_cut_of_the_bytes_gives_the_same_events() -> None:
    stream = message(b"a", 1, 1, b"x", b"\r\n$5\r\n") + message(b"a", 1, 4, b"") + message(b"a", 2, 1, b"z")
    expected: list[Event] = [
        Message("a", b"x", Position(1, 1)),
        Message("a", b"\r\n$5\r\n", Position(1, 2)),
        Gap("a", 1, GapReason.HOLE),
        Message("a", b"", Position(1, 4)),
        Gap("a", None, GapReason.NEW_EPOCH),
        Message("a", b"z", Position(2, 1)),
    ]
    for size in (1, 2, 3, 7, len(stream)):
        async with serving() as peer, connect(peer.url) as bus, bus.subscribe("a") as a:
            for start in range(0, len(stream), size):
                peer.last.send(stream[start : start + size])
                await asyncio.sleep(0)
            assert await take(a, len(expected)) == expected


@on_loop
async def test_iterating_starts_a_subscription_that_was_not_entered() -> None:
    async with serving() as peer, connect(peer.url) as bus:
        subscription = bus.subscribe(b"\xff")
        first = asyncio.create_task(anext(subscription))
        await peer.until(lambda: peer.last.count(b"EQ.SUBSCRIBE") == 1)
        peer.last.send(message(b"\xff", 1, 1, b"x"))
        event = await first
        assert isinstance(event, Message) and event.text == "x"
        await bus.publish(event.topic, "back")
        assert peer.last.requests[-1][1] == b"\xff"


@on_loop
async def test_messages_have_the_pattern_that_matched() -> None:
    async with serving() as peer, connect(peer.url) as bus, bus.psubscribe("g.*") as games:
        assert peer.last.requests[-1] == [b"EQ.PSUBSCRIBE", b"g.*"]
        peer.last.send(push(b"eq.pmessage", b"g.*", b"g.1", 1, 5, b"x", b"y"))
        peer.last.send(push(b"eq.pmessage", b"g.*", b"g.1", 1, 9, b"z"))
        assert await take(games, 4) == [
            Message("g.1", b"x", Position(1, 5), "g.*"),
            Message("g.1", b"y", Position(1, 6), "g.*"),
            Gap("g.1", 2, GapReason.HOLE, "g.*"),
            Message("g.1", b"z", Position(1, 9), "g.*"),
        ]


@on_loop
async def test_a_lost_hub_is_a_gap_of_a_pattern_and_positions_continue() -> None:
    any_topic = b">3\r\n$6\r\neq.gap\r\n$3\r\ng.*\r\n_\r\n"
    async with serving() as peer, connect(peer.url) as bus, bus.psubscribe("g.*") as games:
        peer.last.send(push(b"eq.pmessage", b"g.*", b"g.1", 1, 5, b"x") + any_topic)
        peer.last.send(push(b"eq.gap", b"g.*", b"g.1") + push(b"eq.gap", b"other*", b"g.1"))
        peer.last.send(push(b"eq.pmessage", b"g.*", b"g.1", 1, 8, b"y"))
        assert (await take(games, 5))[1:4] == [
            Gap(None, None, GapReason.HUB_LOST, "g.*"),
            Gap("g.1", None, GapReason.HUB_LOST, "g.*"),
            Gap("g.1", 2, GapReason.HOLE, "g.*"),
        ]


@on_loop
async def test_a_duplicate_is_dropped() -> None:
    async with serving() as peer, connect(peer.url) as bus, bus.subscribe("a") as a:
        peer.last.send(message(b"a", 1, 1, b"1", b"2") + message(b"a", 1, 1, b"1", b"2", b"3"))
        assert [e.payload for e in await take(a, 3) if isinstance(e, Message)] == [b"1", b"2", b"3"]
        assert a.pending == 0


@on_loop
async def test_subscriptions_to_one_topic_share_one_on_the_wire() -> None:
    async with serving() as peer, connect(peer.url) as bus, bus.subscribe("a") as first:
        async with bus.subscribe("a") as second:
            assert peer.last.count(b"EQ.SUBSCRIBE") == 1
            peer.last.send(message(b"a", 1, 1, b"x"))
            assert await take(first, 1) == await take(second, 1) == [Message("a", b"x", Position(1, 1))]
        assert peer.last.count(b"EQ.UNSUBSCRIBE") == 0
        first.close()
        await peer.until(lambda: peer.last.count(b"EQ.UNSUBSCRIBE") == 1)


@on_loop
async def test_a_second_subscription_waits_for_the_confirmation_of_the_first() -> None:
    async with serving() as peer, connect(peer.url) as bus:
        peer.answers[b"EQ.SUBSCRIBE"] = always(None)
        entering = [asyncio.create_task(bus.subscribe("a").__aenter__()) for _ in range(2)]
        await peer.until(lambda: peer.last.count(b"EQ.SUBSCRIBE") == 1)
        peer.last.send(push(b"eq.subscribe", b"a", 1, 1, 0))
        await asyncio.gather(*entering)
        assert peer.last.count(b"EQ.SUBSCRIBE") == 1


@on_loop
async def test_messages_of_an_ended_subscription_do_not_reach_its_successor() -> None:
    async with serving() as peer, connect(peer.url) as bus:
        async with bus.subscribe("a"):
            peer.answers.update({b"EQ.UNSUBSCRIBE": always(None), b"EQ.SUBSCRIBE": always(None)})
        entering = asyncio.create_task(bus.subscribe("a").__aenter__())
        await peer.until(lambda: peer.last.count(b"EQ.SUBSCRIBE") == 2)
        peer.last.send(message(b"a", 1, 1, b"old") + push(b"eq.unsubscribe", b"a", 0))
        peer.last.send(push(b"eq.subscribe", b"a", 1, 1, 1) + message(b"a", 1, 2, b"new"))
        assert await take(await entering, 1) == [Message("a", b"new", Position(1, 2))]


@on_loop
async def test_a_full_queue_drops_the_oldest_and_counts_them() -> None:
    async with (
        serving() as peer,
        connect(peer.url, queue_messages_max=3) as bus,
        bus.subscribe("a") as slow,
        bus.subscribe("a") as quick,
    ):
        for n in range(1, 8):
            peer.last.send(message(b"a", 1, n, b"%d" % n))
            assert await take(quick, 1) == [Message("a", b"%d" % n, Position(1, n))]
        assert await take(slow, 4) == [
            Gap("a", 4, GapReason.QUEUE_FULL),
            *(Message("a", b"%d" % n, Position(1, n)) for n in (5, 6, 7)),
        ]


def test_a_quick_consumer_loses_nothing_in_a_burst() -> None:
    """uvloop reads megabytes before it runs a task; the connection must let the consumer have its turns."""
    total, size = 200_000, 1_000

    async def flood() -> None:
        async with serving() as peer, connect(peer.url) as bus, bus.subscribe("a") as a:
            frames = [message(b"a", 1, n, *([b""] * size)) for n in range(1, total, size)]
            peer.last.send(b"".join(frames))
            events = await take(a, total)
            assert [event for event in events if isinstance(event, Gap)] == []

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(flood())


@on_loop
async def test_messages_skips_gaps() -> None:
    async with serving() as peer, connect(peer.url) as bus, bus.subscribe("a") as a:
        peer.last.send(message(b"a", 1, 5, b"x") + message(b"a", 3, 5, b"y"))
        a_messages = a.messages()
        assert [(await anext(a_messages)).text, (await anext(a_messages)).text] == ["x", "y"]


@on_loop
async def test_several_tasks_share_the_events_of_one_subscription() -> None:
    async with serving() as peer, connect(peer.url) as bus, bus.subscribe("a") as a:
        takers = [asyncio.create_task(take(a, 2)) for _ in range(3)]
        await asyncio.sleep(0)
        for n in range(1, 7):
            peer.last.send(message(b"a", 1, n, b"x"))
        events = [event for taken in await asyncio.gather(*takers) for event in taken]
        assert sorted(e.position.n for e in events if isinstance(e, Message) and e.position) == [
            1,
            2,
            3,
            4,
            5,
            6,
        ]


@on_loop
async def test_a_rejected_subscription_raises_where_it_is_entered_and_others_continue() -> None:
    async with serving() as peer, connect(peer.url) as bus, bus.subscribe("mine") as mine:

        def answer(session: object, request: list[bytes]) -> bytes:
            if request[1] == b"theirs":
                return b"-NOPERM no permission to subscribe to 'theirs'\r\n"
            return push(b"eq.subscribe", request[1], 1, 1, 0)

        peer.answers[b"EQ.SUBSCRIBE"] = answer
        with pytest.raises(DeniedError, match="subscribe to 'theirs'; ask the operator of the hub"):
            async with bus.subscribe("ours", "theirs"):
                pass
        peer.last.send(message(b"mine", 1, 1, b"x"))
        assert await take(mine, 1) == [Message("mine", b"x", Position(1, 1))]
        await peer.until(lambda: [b"EQ.UNSUBSCRIBE", b"ours"] in peer.last.requests)


@on_loop
async def test_a_subscription_over_the_hubs_limit_is_rejected_and_not_retried() -> None:
    async with serving() as peer, connect(peer.url) as bus:
        peer.answers[b"EQ.SUBSCRIBE"] = always(b"-ERR too many subscriptions\r\n")
        with pytest.raises(RefusedError, match="too many subscriptions"):
            async with bus.subscribe("a"):
                pass
        assert peer.last.count(b"EQ.SUBSCRIBE") == 1


@on_loop
async def test_a_revoked_subscription_ends_with_the_reason_after_the_received_messages() -> None:
    async with (
        serving() as peer,
        connect(peer.url) as bus,
        bus.subscribe("a", "b") as both,
        bus.subscribe("b") as other,
    ):
        peer.last.send(message(b"a", 1, 1, b"x") + push(b"eq.unsubscribe", b"a", 1))
        assert await take(both, 1) == [Message("a", b"x", Position(1, 1))]
        for _ in range(2):
            with pytest.raises(DeniedError, match="'a': the permission was revoked; ask the operator"):
                await anext(both)
        peer.last.send(message(b"b", 1, 1, b"y"))
        assert await take(other, 1) == [Message("b", b"y", Position(1, 1))]


@on_loop
async def test_a_revoked_pattern_ends_likewise() -> None:
    async with serving() as peer, connect(peer.url) as bus, bus.psubscribe("a*") as pattern:
        peer.last.send(push(b"eq.punsubscribe", b"a*", 0))
        with pytest.raises(DeniedError, match=r"'a\*': the permission was revoked"):
            await anext(pattern)


@on_loop
async def test_a_missing_confirmation_raises_and_the_name_is_unsubscribed() -> None:
    async with serving() as peer, connect(peer.url, request_timeout_s=0.02) as bus:
        peer.answers[b"EQ.SUBSCRIBE"] = always(None)
        with pytest.raises(
            DisconnectedError, match=r"did not confirm the subscription to 'a' within 0\.02 s"
        ):
            async with bus.subscribe("a"):
                pass
        await peer.until(lambda: peer.last.count(b"EQ.UNSUBSCRIBE") == 1)


@on_loop
async def test_a_subscription_is_entered_once_and_needs_a_name() -> None:
    async with serving() as peer, connect(peer.url) as bus:
        async with bus.subscribe("a") as a:
            with pytest.raises(MisuseError, match="entered once"):
                await a.__aenter__()
        with pytest.raises(MisuseError, match="at least one"):
            bus.subscribe()


@on_loop
async def test_leaving_the_context_ends_the_iteration_after_the_received_messages() -> None:
    async with serving() as peer, connect(peer.url) as bus:
        async with bus.subscribe("a") as a:
            peer.last.send(message(b"a", 1, 1, b"x", b"y"))
            await until(lambda: a.pending == 2)
        assert [event async for event in a] == [
            Message("a", b"x", Position(1, 1)),
            Message("a", b"y", Position(1, 2)),
        ]
